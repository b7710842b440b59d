"""The collector is off for a while, and then as it was."""

import gc

import pytest

from assignors.sticky.plan import without_collector


def test_off_and_on_again_whatever_happens() -> None:
    assert gc.isenabled()
    with without_collector():
        assert not gc.isenabled()
        with without_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), without_collector():
        assert 1 // 0
    assert gc.isenabled()


def test_can_be_left_alone() -> None:
    with without_collector(pause=False):
        assert gc.isenabled()
    assert gc.isenabled()


def test_disabled_collector_stays_disabled() -> None:
    gc.disable()
    try:
        with without_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_much_that_is_new_counts_as_old() -> None:
    with without_collector():
        made: list[list[int]] = [[] for _ in range(20_000)]
    assert gc.isenabled()
    assert gc.get_count()[0] < 20_000
    assert not gc.get_freeze_count()
    old = set(map(id, gc.get_objects(generation=2)))
    assert id(made[0]) in old
    assert id(made[-1]) in old


def test_much_that_the_caller_has_made_before_stays_new() -> None:
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000, *thresholds[1:])
    try:
        made: list[list[int]] = [[] for _ in range(20_000)]
        with without_collector():
            pass
        # lists that are used again do not count
        assert gc.get_count()[0] >= len(made) // 2
    finally:
        gc.set_threshold(*thresholds)


def test_a_program_that_freezes_objects_itself_is_left_alone() -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with without_collector():
            made: list[list[int]] = [[] for _ in range(20_000)]
        assert gc.get_freeze_count() == pytest.approx(frozen, abs=1000)
        assert len(made) == 20_000
    finally:
        gc.unfreeze()


def test_cycles_are_still_found() -> None:
    with without_collector():
        made: list[object] = [[] for _ in range(20_000)]
        made.append(made)
    before = len(gc.get_objects())
    del made
    gc.collect()
    assert len(gc.get_objects()) < before - 19_000
