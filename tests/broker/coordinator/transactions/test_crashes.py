"""Tests that a crash after any record leaves no transaction torn."""

from collections.abc import Callable

import pytest

from groupsdk.broker.coordinator.transactions.metadata import TransactionState as S
from groupsdk.broker.settings.table import TransactionConfig
from groupsdk.error_code import ErrorCode
from tests.broker.coordinator.transactions.driving import TV1, TV2
from tests.broker.coordinator.transactions.world import Client, CrashError, World


def script(world: World, version: int) -> None:
    """Uses every kind of record: two producers, both outcomes, a fence, a timeout, an expiry."""
    one, two = Client("one", version), Client("two", version)
    successor = Client("one", version)
    places = [("t", partition) for partition in range(3)]
    for client in (one, two):
        world.initialize(client, goes_on=False)
    for commit in (True, False, True):
        for place in places:
            world.write(one, place)
            world.write(two, place)
        world.finish(one, commit=commit)
        world.write_markers(
            dict.fromkeys(places[1:], ErrorCode.NONE) | {places[0]: ErrorCode.REQUEST_TIMED_OUT}
        )
        world.wait(50)
        world.write_markers()
        world.finish(two, commit=not commit)
        world.write_markers()
        world.finish(one, commit=commit, again=True)
    world.finish(two, commit=False)  # nothing to abort
    for place in places:
        world.write(one, place)
    world.initialize(successor, goes_on=False)
    world.write_markers()
    world.initialize(successor, goes_on=False)
    for place in places:
        world.write(successor, place)
    world.wait(100_000)
    world.write_markers()
    world.initialize(successor, goes_on=True)
    world.lift("one", 32_766)
    world.write(successor, places[0])
    world.finish(successor, commit=True)
    world.write_markers()
    world.wait(world.config.transactional_id_expiration_ms + 3_600_000)


def run(version: int, crash_at: int | None) -> World:
    world = World(
        TransactionConfig(
            transaction_version=2 if version == TV2 else 1,
            transactional_id_expiration_ms=50_000_000,
        )
    )
    world.crash_at = crash_at
    try:
        script(world, version)
    except CrashError:
        world.restart()
    return world


@pytest.mark.parametrize("version", [TV1, TV2])
def test_without_a_crash_it_comes_to_its_end(version: int) -> None:
    world = run(version, None)
    assert len(world.log) > 40
    assert world.shard.transactions == (), "all have expired"
    assert len(world.told) >= 6
    world.settle()


@pytest.mark.parametrize("version", [TV1, TV2])
def test_a_crash_after_each_record(version: int) -> None:
    records = len(run(version, None).log)
    states = set()
    for crash_at in range(1, records):
        world = run(version, crash_at)
        assert len(world.log) >= crash_at
        states |= {view.state for view in world.shard.transactions}
        world.settle()
    assert states >= {S.EMPTY, S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.COMPLETE_COMMIT}


@pytest.mark.parametrize("version", [TV1, TV2])
@pytest.mark.parametrize("commit", [True, False])
def test_crashes_while_markers_are_written(version: int, commit: bool) -> None:
    places = [("t", partition) for partition in range(3)]

    def prepared() -> tuple[World, Client]:
        world = World(TransactionConfig())
        client = Client("x", version)
        world.initialize(client, goes_on=False)
        for place in places:
            world.write(client, place)
        world.finish(client, commit=commit)
        return world, client

    outcomes: list[Callable[[tuple[str, int]], bool]] = [
        lambda place: False,
        lambda place: place[1] == 1,
        lambda place: place[1] != 1,
        lambda place: True,
    ]
    for reached in outcomes:
        world, _ = prepared()
        world.write_markers(
            {
                place: ErrorCode.NONE if reached(place) else ErrorCode.NETWORK_EXCEPTION
                for place in places
            }
        )
        world.check()
        world.restart()
        world.settle()
        assert {
            batch.outcome for partition in world.data.values() for batch in partition.batches
        } == {commit}
