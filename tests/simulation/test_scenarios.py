"""Play single faults to members in virtual time, each at every moment that may matter."""

import pytest

from groupsdk.broker.coordinator.group_status import GroupState
from groupsdk.member.heartbeat import HeartbeatTimer
from groupsdk.testing.simulation.classic_world import TASKS
from groupsdk.testing.simulation.member_process import CallerBehavior
from groupsdk.types import GroupMembershipOperation
from tests.simulation.watched_tasks import InvariantError, Simulation
from tests.support.cases import each_case


pytestmark = pytest.mark.usefixtures("quiet")


def _world(members: int = 2, seed: int = 0) -> Simulation:
    world = Simulation(seed)
    for _ in range(members):
        world.add()
    world.settle(20_000)
    return world


def test_members_form_a_group_and_share_the_tasks() -> None:
    world = _world(3)
    assert sorted(len(member.believes()) for member in world.members) == [1, 2, 2]
    assert world.watch.written.generation == 1


def test_a_member_with_no_work_stays_a_member() -> None:
    """Invariant 11; aiokafka expels members without partitions."""
    world = _world(len(TASKS) + 2)
    idle = [member for member in world.members if not member.believes()]
    assert len(idle) == 2
    generation = world.watch.written.generation
    world.run(120_000)
    world.check_converged()
    assert world.watch.written.generation == generation


def test_nothing_happens_in_a_group_that_nothing_happens_to() -> None:
    world = _world(4)
    world.run(600_000)
    world.check_converged()
    assert world.watch.written.generation == 1
    assert [member.callbacks.log for member in world.members] == [["prepare -1", "complete 1"]] * 4


def test_a_static_member_that_restarts_keeps_its_work_without_a_rebalance() -> None:
    """Invariant 10."""
    world = Simulation(1)
    for instance_id in ("a", "b"):
        world.add(group_instance_id=instance_id)
    world.settle(20_000)
    first, other = world.members
    had, generation, told = (
        first.believes(),
        world.watch.written.generation,
        list(other.callbacks.log),
    )
    first.kill()
    world.run(2_000)
    second = world.add(group_instance_id="a")
    world.settle(20_000)
    assert second.believes() == had
    assert world.watch.written.generation == generation
    assert other.callbacks.log == told


def test_of_two_processes_with_one_instance_id_one_is_served_and_the_other_fenced() -> None:
    """Invariant 10. The older one learns it from its next heartbeat, so no check of invariant 4."""
    world = Simulation(1, harsh=True)
    first = world.add(group_instance_id="a")
    world.settle(20_000)
    second = world.add(group_instance_id="a")
    world.run(10_000)
    assert first.fenced
    assert not first.believes()
    assert second.active
    world.run(60_000)
    assert second.active
    assert not second.fenced


@each_case("seed", range(20))
def test_a_member_paused_past_its_session_knows_it_before_it_acts(seed: int) -> None:
    """Invariant 7. In half of the seeds its caller's thread is the first to run again."""
    world = _world(2, seed)
    sleeper, other = world.members
    assert sleeper.believes()
    sleeper.pause(15_000)
    world.excuse(sleeper, 15_000)
    world.run(14_999)
    assert not sleeper.believes()
    assert sorted(other.believes()) == list(TASKS)
    world.settle(30_000)


@pytest.mark.parametrize("pause_ms", [500, 2_000, 3_900])
def test_a_short_pause_costs_nothing(pause_ms: int) -> None:
    world = _world(2)
    world.members[0].pause(pause_ms)
    world.run(20_000)
    world.check_converged()
    assert world.watch.written.generation == 1


@each_case("after_ms", range(0, 500, 20))
@pytest.mark.parametrize("from_ms", range(0, 4_000, 500))
def test_a_connection_may_break_at_any_moment(from_ms: int, after_ms: int) -> None:
    """In the middle of each request and of each answer, the joining included."""
    for seed in range(3):
        world = Simulation(seed)
        for _ in range(2):
            world.add()
        world.run(from_ms + after_ms)
        for member in world.members:
            world.excuse(member, 0)
        world.members[seed % 2].break_connection()
        world.settle(40_000)
        assert {member.view.failure for member in world.members} == {None}


@each_case("after_ms", range(0, 1_000, 50))
@pytest.mark.parametrize("from_ms", range(0, 4_000, 1_000))
@pytest.mark.parametrize("crash", [False, True])
def test_the_coordinator_may_move_at_any_moment(from_ms: int, after_ms: int, crash: bool) -> None:
    """What it did not write is lost: between a join and its sync the group falls back."""
    for seed in range(2):
        world = Simulation(seed)
        for _ in range(2):
            world.add()
        world.run(from_ms + after_ms)
        if crash:
            world.crash_coordinator(500)
        else:
            world.move_coordinator()
        world.settle(60_000)


def _returns_while_the_group_is_loaded(after_ms: int) -> None:
    """Cut a member off until the group has gone on without it, and let it return to a coordinator that loads."""
    world = _world(2)
    world.load_ms = 3_000
    away, other = world.members
    away.cut(12_500 + after_ms)
    world.excuse(away, 12_500 + after_ms)
    world.run(12_000)
    assert sorted(other.believes()) == list(TASKS)
    world.crash_coordinator(500)
    world.settle(60_000)


@each_case("after_ms", range(0, 3_500, 100))
def test_member_that_the_group_went_on_without_returns_while_it_is_loaded(after_ms: int) -> None:
    """A coordinator that loads the group accepts any heartbeat, as Kafka's does."""
    _returns_while_the_group_is_loaded(after_ms)


def test_member_that_takes_any_heartbeat_for_the_end_of_a_lapse_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        HeartbeatTimer,
        "reset_session",
        lambda timer, now_ms: timer.session_until_ms and timer.accepted(now_ms, now_ms),
    )
    with pytest.raises(InvariantError, match=r"invariant [47]"):
        _returns_while_the_group_is_loaded(700)


@each_case("after_ms", range(0, 1_000, 50))
@pytest.mark.parametrize("from_ms", range(0, 4_000, 1_000))
def test_a_process_may_be_killed_at_any_moment(from_ms: int, after_ms: int) -> None:
    for seed in range(2):
        world = Simulation(seed)
        for _ in range(3):
            world.add()
        world.run(from_ms + after_ms)
        world.members[seed].kill()
        world.disturb(0)
        world.settle(60_000)


def test_a_callback_longer_than_the_rebalance_timeout_does_not_hold_the_others_up() -> None:
    """Invariant 6: the group goes on without it; it joins again when its caller is back."""
    world = Simulation(3)
    slow = world.add(CallerBehavior(slow=1.0, slow_ms=12_000), max_poll_interval_ms=60_000)
    quick = world.add()
    world.run(30_000)
    world.run(30_000)
    assert quick.active
    slow.behavior.slow = 0.0
    world.settle(60_000)


def test_a_callback_that_raises_is_called_again_with_the_same_bytes() -> None:
    """Invariant 9, checked as the callbacks come."""
    told = []
    for seed in range(5):
        world = Simulation(seed)
        raising = world.add(CallerBehavior(raises=0.6))
        world.add()
        world.run(20_000)
        raising.behavior.raises = 0.0
        world.settle(30_000)
        told += raising.callbacks.log
    assert any(line.startswith("complete") and line.endswith("raises") for line in told)


@pytest.mark.parametrize("operation", list(GroupMembershipOperation))
@pytest.mark.parametrize("static", [False, True])
def test_the_group_is_empty_once_all_have_left_or_expired(
    operation: GroupMembershipOperation, static: bool
) -> None:
    """Invariant 12."""
    world = Simulation(4)
    for number in range(3):
        world.add(group_instance_id=f"i{number}" if static else None)
    world.settle(30_000)
    for member in world.members:
        world.excuse(member, 0)
        member.close(operation)
    world.run(3_000)
    leaves = operation is GroupMembershipOperation.LEAVE_GROUP or (
        operation is GroupMembershipOperation.DEFAULT and not static
    )
    assert world.group is not None
    assert (world.group.state is GroupState.EMPTY) == leaves
    assert not any(member.alive for member in world.members)
    world.run(30_000)
    assert world.group.state is GroupState.EMPTY
    assert world.watch.written.members == {}


def test_leaving_and_closing_twice_is_harmless() -> None:
    """Invariant 11."""
    world = _world(2)
    member, other = world.members
    for _ in range(2):
        member.leave()
    world.settle(20_000)
    assert member.active
    for _ in range(2):
        member.close(GroupMembershipOperation.DEFAULT)
    world.settle(20_000)
    assert sorted(other.believes()) == list(TASKS)


def test_a_failed_run_names_its_seed_and_tells_what_led_to_it() -> None:
    world = _world(2, seed=5)
    with pytest.raises(InvariantError, match="invariant 4: two owners") as raised:
        world.fail(4, "two owners")
    text = str(raised.value)
    assert "seed 5, what led to it:" in text
    assert "p0: CompleteJoin 1" in text
    assert "log: generation 1" in text
