"""Test what the coordinators of both protocols share, beyond what the tests of each go through."""

import pytest

from groupsdk.consumer.partition_owner import FirstError
from tests.consumer.rig import Bench


def test_all_steps_are_done_and_the_first_exception_is_raised_at_the_end() -> None:
    done: list[int] = []

    def step(number: int, error: Exception | None) -> None:
        done.append(number)
        if error is not None:
            raise error

    errors = FirstError()
    errors.keep(lambda: step(1, None))
    errors.keep(lambda: step(2, ValueError("second")))
    errors.keep(lambda: step(3, KeyError("third")))
    assert done == [1, 2, 3]
    with pytest.raises(ValueError, match="second"):
        errors.raise_first()


def test_keyboard_interrupt_is_raised_at_once() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FirstError().keep(interrupted)
    FirstError().raise_first()


def test_a_revocation_that_is_interrupted_before_the_listener_hears_of_it_is_told_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    told: list[list[int]] = []
    bench.consumer.subscribe(
        "t", on_revoke=lambda given: told.append([each.partition for each in given])
    )
    bench.read(timeout=0.3)
    owner = bench.session.coordinator
    owned = owner.owned
    assert owned

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner._reader, "commit_before_revocation", interrupted)
        with pytest.raises(KeyboardInterrupt):
            owner.on_leave_prepare()
    assert (owner.owned, told) == (owned, [])
    owner.on_leave_prepare()
    assert owner.owned == frozenset()
    assert told == [[each.partition for each in sorted(owned)]]
