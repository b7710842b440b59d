"""Holds stop signals: they look at the clock themselves."""

import asyncio

from groupsdk.connect.tasks.runs import AsyncStop, LeasedStop


def test_one_of_coroutines_waits_as_long_as_it_is_told() -> None:
    async def look() -> tuple[bool, bool]:
        stop = AsyncStop()
        before = await stop.wait(0.001)
        stop.set()
        return before, await stop.wait()

    assert asyncio.run(look()) == (False, True)


def test_leased_stop_looks_at_the_clock() -> None:
    held = [True, True, False, True]
    stop = LeasedStop(lambda: held.pop(0))
    assert not stop.is_set()
    assert not stop.wait(0.001)
    assert stop.wait(0.001)
    # once set it stays so
    assert stop.is_set()
    assert held == [True]

    async def look() -> list[bool]:
        again = [True, False]
        signal = AsyncStop(lambda: again.pop(0))
        return [await signal.wait(0.001), await signal.wait(0.001), signal.is_set()]

    assert asyncio.run(look()) == [False, True, True]


def test_lapsed_lease_stays_lapsed() -> None:
    held = [True, False, True]
    stop = LeasedStop(lambda: held.pop(0))
    assert [stop.holds(), stop.holds(), stop.holds()] == [True, False, False]
    assert held == [True]
    # told to end in good order, the worker still holds
    other = LeasedStop()
    other.set()
    assert (other.is_set(), other.holds()) == (True, True)
