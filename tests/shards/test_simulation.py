"""Groups of shard workers in virtual time, under random faults; a failure names its seed: ``random_run(seed)`` repeats it.

Invariants: no shard has two holders by their own clocks (51), epochs rise (52), every shard is owned soon after faults
stop (53), what the user's code was told is what the worker holds (54), who drains leaves (55), and a rebalance without
a reason moves nothing (56), a shard that is handed over waits for no longer than its release took (57), a group at rest
does not rebalance (58).
"""

import logging
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import pytest

from groupsdk.testing.simulation.member_process import CallerBehavior
from groupsdk.types import GroupMembershipOperation
from tests.shards.simulated import random_run, rolling_restart
from tests.shards.world import ShardMember, ShardWorld
from tests.support.cases import with_long


CHUNK = 20
_LONG_MS: Final = 120_000


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Workers under faults log a lot, and nobody reads it."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("first", with_long(range(0, 200, CHUNK), *range(100, 200, CHUNK)))
def test_faults(first: int) -> None:
    for seed in range(first, first + CHUNK):
        random_run(seed)


@pytest.mark.parametrize("seed", [500_215, 500_452, 100_374])
def test_seeds_that_failed(seed: int) -> None:
    # a static leader came back to a plan that had failed; a static member that drained came back from a pause; one
    # that had drained left while the coordinator moved
    random_run(seed)


def _members(world: ShardWorld, *settings: dict[str, Any]) -> list[ShardMember]:
    """Start members one by one, with twelve shards, and let them settle."""
    world.standbys = 0
    world.listed = [f"s{number}" for number in range(12)]
    for each in settings:
        world.add(CallerBehavior(tick_ms=100), rebalance_timeout_ms=5_000, **each)
        world.settle(_LONG_MS)
    return [*world.members]


@pytest.mark.parametrize("seed", range(5))
def test_static_member_that_ends_while_it_releases_is_followed_after_its_session(seed: int) -> None:
    """Its session would begin anew with each rebalance that the others ask for meanwhile."""
    world = ShardWorld(seed)
    session_ms = 15_000
    static, _ = _members(
        world,
        {"group_instance_id": "i0", "session_timeout_ms": session_ms},
        {"session_timeout_ms": session_ms},
    )
    world.add(CallerBehavior(tick_ms=700), rebalance_timeout_ms=5_000)
    for _ in range(2_000):
        if static.part.owner.holdings.releasing:
            break
        world.run(5)
    assert static.part.owner.holdings.releasing
    static.kill()
    generation = world.generation

    world.settle(2 * session_ms + 10_000)

    assert world.generation - generation <= 8


@pytest.mark.parametrize("seed", range(5))
def test_lapse_while_others_are_waited_for_asks_for_no_further_rebalance(seed: int) -> None:
    """A join that waits for a static member that is gone lasts longer than a lease."""
    world = ShardWorld(seed)
    static, *others = _members(
        world, {"group_instance_id": "i0", "session_timeout_ms": 30_000}, {}, {}
    )
    static.kill()
    world.run(3_000)
    generation = world.generation
    others[0].rejoin()
    world.run(20_000)

    # and the coordinator makes one when the static member has not synchronized
    assert world.generation == generation + 2
    assert sum(each.code.lost for each in others) > 0
    world.settle(_LONG_MS)


@pytest.mark.parametrize("drains", [True, False])
def test_static_member_that_leaves_while_the_coordinator_moves_is_out_at_once(drains: bool) -> None:
    world = ShardWorld(1)
    leaving, other = _members(world, {"session_timeout_ms": 60_000, "group_instance_id": "i0"}, {})
    if drains:
        leaving.drain()
    else:
        leaving.close(GroupMembershipOperation.LEAVE_GROUP)
    for _ in range(30_000):
        if leaving.view.generation.is_reset:
            break
        world.run(1)
    assert leaving.view.generation.is_reset
    world.move_coordinator()
    world.run(8_000)
    assert set(other.holds()) == set(world.listed)


def test_worker_that_was_expelled_ends_without_waiting_for_its_standbys() -> None:
    world = ShardWorld(3)
    hanging, *_ = _members(world, {"standbys": 1}, {"standbys": 1})
    hanging.hangs = 1.0
    world.add(CallerBehavior(tick_ms=100), rebalance_timeout_ms=5_000, standbys=1)
    for _ in range(20_000):
        if hanging.part.owner.expelled and hanging.view.generation.is_reset:
            break
        world.run(1)
    assert hanging.part.owner.blocked
    assert hanging.part.owner.stands_by
    assert [*hanging.part.leaving(60_000)] == []
    assert [*islice(hanging.part.stand_down(), 1)] == []


@pytest.mark.parametrize("first", with_long(range(0, 24, 6), 12, 18))
def test_rolling_restart_leaves_no_shard_without_an_owner_for_longer_than_its_release(
    first: int,
) -> None:
    for seed in range(first, first + 6):
        rolling_restart(seed)


@pytest.mark.parametrize("seed", [1_046, 1_058, 1_092])
def test_rolling_restart_waits_for_no_standby_of_a_drained_worker(seed: int) -> None:
    # the last shard of a worker that drained waited for its on_standby_gained or on_standby_released
    rolling_restart(seed)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("first", range(100_000, 104_000, 10 * CHUNK))
def test_many_faults(first: int) -> None:
    for seed in range(first, first + 10 * CHUNK):
        random_run(seed)


def test_a_seed_is_a_run() -> None:
    one, two = random_run(7), random_run(7)
    assert one.report("") == two.report("")
    assert one.timeline.steps == two.timeline.steps > 100
