"""Run random faults against consumer groups (KIP-848) in virtual time, and prove that the checks can fail.

The members are our own, of both protocols. A failure names its seed: ``random_consumer_run(seed)`` plays it again.
Each mutant undoes one thing that a consumer group's safety rests on in its coordinator, and some seed has to notice;
those of the member are in `test_consumer_mutants.py`.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from groupsdk.broker.coordinator.consumer import (
    conversion,
    group_updater,
    heartbeat,
    reconciliation,
    records,
    regex_resolution,
)
from groupsdk.broker.coordinator.consumer.conversion import ConversionError
from groupsdk.broker.coordinator.consumer.coordinator import ConsumerGroupCoordinator
from groupsdk.broker.coordinator.consumer.group import ConsumerGroup
from groupsdk.broker.coordinator.consumer.group_updater import GroupUpdater
from groupsdk.broker.coordinator.consumer.heartbeat import ConsumerHeartbeats
from groupsdk.broker.coordinator.consumer.member import NOTHING_HELD, ConsumerGroupMember
from groupsdk.broker.coordinator.consumer.registry import ConsumerGroupRegistry, TimerKind
from groupsdk.broker.coordinator.offsets import commit_validation
from groupsdk.broker.coordinator.offsets.commit_validation import CommitRequest
from groupsdk.broker.settings.table import GroupConfig, MigrationPolicy
from groupsdk.error_code import ErrorCode
from groupsdk.testing.simulation.consumer_member import ConsumerMember, ConsumerSetup
from groupsdk.testing.simulation.consumer_world import TOPICS
from groupsdk.testing.simulation.member_process import CallerBehavior
from groupsdk.types import GroupMembershipOperation
from tests.simulation.checks import (
    NOTICED,
    check_noticed,
    check_runs,
    chunks,
    play_consumer_groups,
)
from tests.simulation.watched_consumers import ConsumerSimulation, random_consumer_run
from tests.support.cases import with_long


CHUNK = 50
QUICK = 300
QUICK_HARSH = 100
FULL = int(os.environ.get("GROUPSDK_SEEDS", "20000"))
SEEDS = 600
RUNS_WITH_POLICIES = range(4, 5 * SEEDS, 5)
RUNS_WITH_PATTERNS = range(6, 7 * SEEDS, 7)
REGRESSIONS = (18, 113, 201, 500_552, 700_051, 700_095, 700_528, 813_000_860, 32_758_004_000_629)
"""Runs that found a mistake once: in the member of the consumer protocol, the last but two in that of the classic one."""
HARSH_REGRESSIONS = (100_000_989, 32_758_019_001_403, 356_255_913_417)
"""Where a mistake was in what the simulation expects: of a group of classic members that may not become a classic one, and
of a commit that is answered together with an older one of its process, which has set its offset back by then."""
Patch = pytest.MonkeyPatch
pytestmark = pytest.mark.usefixtures("quiet")
Mutant = Callable[[Patch], None]


@pytest.mark.parametrize("first", chunks(0, QUICK, CHUNK))
def test_consumer_runs_with_faults_keep_the_invariants(first: int) -> None:
    check_runs(play_consumer_groups, first, CHUNK)


@pytest.mark.parametrize("first", chunks(0, QUICK_HARSH, CHUNK))
def test_consumer_runs_with_late_requests_keep_the_invariants(first: int) -> None:
    check_runs(partial(play_consumer_groups, harsh=True), first, CHUNK)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("harsh", [False, True])
@pytest.mark.parametrize("first", chunks(1_000_000, FULL, CHUNK))
def test_many_consumer_runs_keep_the_invariants(first: int, harsh: bool) -> None:
    check_runs(partial(play_consumer_groups, harsh=harsh), first, CHUNK)


def test_consumer_seed_repeats_its_run() -> None:
    one, two = random_consumer_run(7), random_consumer_run(7)
    assert one.report("") == two.report("")
    assert one.timeline.steps == two.timeline.steps > 50


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_consumer_seed_that_once_failed_passes(seed: int) -> None:
    random_consumer_run(seed)


def test_a_commit_by_name_may_be_of_a_topic_that_is_gone() -> None:
    """Its member has not heard of that yet; the offset of the new topic goes on from there, and back again."""
    random_consumer_run(251)


def test_a_loss_of_power_that_takes_a_generation_opens_the_one_before_to_commits() -> None:
    """A request from elsewhere in that one is not fenced, so none may be sent for what its member does not own."""
    random_consumer_run(43_000_000_022_254, extended=True)


def test_a_member_that_is_refused_may_leave_all_the_same() -> None:
    """Its caller stalls until the process is restarted in the other protocol, and its join may have gone through."""
    random_consumer_run(37_000_800_000_019)


def test_successor_of_a_static_member_may_leave_for_good() -> None:
    """The process before it went to come back a moment ago, and its place is rightly gone."""
    random_consumer_run(187_495_268_107)


def test_a_downgrade_without_a_rebalance_leaves_a_member_waiting() -> None:
    """As in Kafka: a static member takes the last place of the consumer protocol while another waits for partitions."""
    random_consumer_run(700_001_024)


def test_a_downgrade_without_a_rebalance_gives_away_what_a_member_has_not_given_up() -> None:
    """As in Kafka: the static member that takes the last place of the consumer protocol is given its target at once."""
    random_consumer_run(37_000_700_200_603)


def test_what_a_member_commits_of_what_an_upgrade_gave_away_sets_the_next_owner_back() -> None:
    """As in Kafka: it was paused as the group was upgraded, and commits in its generation as it gives the partition up."""
    found = random_consumer_run(38_200_101_300_190)
    assert sum(watch.offsets.overtaken for watch in found.watches.values()) == 1


def test_a_group_that_goes_back_and_forth_takes_what_members_were_to_have_for_what_they_have() -> (
    None
):
    """As in Kafka: a downgrade writes the target assignment, and an upgrade before the members' next join reads it."""
    random_consumer_run(813_003_708)


def test_a_static_member_that_comes_back_asks_for_what_others_were_to_have_from_it() -> None:
    """The group rebalanced without it, as one that had all partitions still."""
    random_consumer_run(43_000_000_022_789, extended=True)


def test_an_expression_is_resolved_again_after_a_restart_that_follows_a_new_topic() -> None:
    """The broker lost power before it had: its topics had as many changes then as the next process reads topics."""
    random_consumer_run(42_000_000_132_418)


def test_a_static_member_does_not_keep_the_pattern_of_the_one_before_it() -> None:
    random_consumer_run(811_004_494, extended=True)


def test_an_epoch_that_is_written_with_the_downgrade_reaches_nobody() -> None:
    """As in Kafka: the classic group goes on from the epoch before."""
    random_consumer_run(813_003_313)


def test_a_member_that_is_let_in_without_an_epoch_waits_for_its_own_place() -> None:
    """A static one takes a place in a group that is upgraded before it has a generation, which stays in epoch 0."""
    random_consumer_run(950_070_000_081, extended=True)


def test_a_coordinator_that_is_lost_after_a_downgrade_leaves_a_member_waiting() -> None:
    """As in Kafka: the rebalance that was to follow is not in the log, and the next coordinator finds a stable group."""
    random_consumer_run(930_020_000_290)


@pytest.mark.parametrize("seed", [2_654_000_000_481, 920_000_000_041])
def test_a_static_leader_that_returns_does_not_see_that_topics_grew(seed: int) -> None:
    """As in Kafka: it is told to skip the assignment (KIP-814), and the group keeps the one of its last generation."""
    random_consumer_run(seed)


def test_a_static_leader_that_has_lapsed_and_returns_does_not_see_that_topics_grew() -> None:
    """As above, without a restart of its process: a slow callback took longer than its poll interval."""
    random_consumer_run(91_795_720_042_365, extended=True)


def test_a_rebalance_that_was_due_before_a_static_member_lost_its_place_is_due_still() -> None:
    """It had given a partition up, and its poll interval ended before it joined again."""
    random_consumer_run(5_700_000_069, extended=True)


def test_a_rebalance_that_was_due_is_due_still_where_the_group_went_on_without_the_static_member() -> (
    None
):
    random_consumer_run(45_000_000_055_441, extended=True)


@pytest.mark.parametrize("after_ms", [7_400, 7_800])
def test_member_closing_in_a_slow_callback_may_be_removed(after_ms: int) -> None:
    """It closes in the middle of a slow callback, and the time to give partitions up ends a moment later."""
    world = ConsumerSimulation(1)
    setup = ConsumerSetup(("work",))
    slow = world.add(CallerBehavior(tick_ms=100), setup)
    world.run(3_000)
    slow.behavior = CallerBehavior(tick_ms=100, slow=1.0, slow_ms=9_000)
    other = world.add(CallerBehavior(tick_ms=100), setup)
    world.run(after_ms)
    member_id, members = slow.view.generation.member_id, world.watch_of(slow).members
    assert member_id in members
    world.closing(slow, GroupMembershipOperation.REMAIN_IN_GROUP)
    slow.close(GroupMembershipOperation.REMAIN_IN_GROUP)
    world.run(3_000)
    assert member_id not in members
    assert len(other.believes()) == TOPICS["work"]


@pytest.mark.parametrize("seed", HARSH_REGRESSIONS)
def test_harsh_consumer_seed_that_once_failed_passes(seed: int) -> None:
    random_consumer_run(seed, harsh=True)


# -- mutants of the coordinator


def frees_what_is_not_acknowledged(patch: Patch) -> None:
    patch.setattr(reconciliation, "_owns_any", lambda *_: False)


def gives_what_others_hold(patch: Patch) -> None:
    patch.setattr(ConsumerGroup, "not_held_by_others", lambda *given: given[-1])


def forgets_who_holds_what_is_to_be_given_up(patch: Patch) -> None:
    hold = ConsumerGroup._hold

    def forgetful(group: ConsumerGroup, member: ConsumerGroupMember) -> None:
        hold(group, replace(member, pending=NOTHING_HELD))

    patch.setattr(ConsumerGroup, "_hold", forgetful)


def raises_no_epoch_for_topics_that_grew(patch: Patch) -> None:
    patch.setattr(GroupUpdater, "needs_refresh", lambda *_: False)


def raises_no_epoch_for_who_leaves(patch: Patch) -> None:
    made, remove = records.group_epoch, GroupUpdater.remove

    def same(group_id: str, epoch: int, hashed: int) -> Any:
        return made(group_id, epoch - 1, hashed)

    def removes(*arguments: Any) -> None:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(group_updater, "group_epoch", same)
            remove(*arguments)

    patch.setattr(GroupUpdater, "remove", removes)


def computes_no_target(patch: Patch) -> None:
    patch.setattr(GroupUpdater, "update_target", lambda *_: None)


def tells_an_epoch_too_many(patch: Patch) -> None:
    handle = ConsumerHeartbeats._heartbeat

    def ahead(self: ConsumerHeartbeats, *given: Any) -> Any:
        answer = handle(self, *given)
        return replace(answer, member_epoch=answer.member_epoch + 1)

    patch.setattr(ConsumerHeartbeats, "_heartbeat", ahead)


def takes_every_epoch(patch: Patch) -> None:
    patch.setattr(heartbeat, "_check_epoch", lambda *_: None)


def takes_every_commit(patch: Patch) -> None:
    patch.setattr(commit_validation, "_of_consumer_group", lambda *_, **__: ErrorCode.NONE)


def takes_commits_of_older_epochs(patch: Patch) -> None:
    check = commit_validation._of_consumer_group

    def lenient(group: ConsumerGroup, request: CommitRequest, *rest: Any, **more: Any) -> ErrorCode:
        member = group.members.get(request.member_id)
        if member is not None and request.generation_id_or_member_epoch >= 0:
            request = replace(request, generation_id_or_member_epoch=member.epoch)
        return check(group, request, *rest, **more)

    patch.setattr(commit_validation, "_of_consumer_group", lenient)


def removes_nobody_by_time(patch: Patch) -> None:
    patch.setattr(ConsumerGroupCoordinator, "_due", lambda *_: None)


def renews_no_session(patch: Patch) -> None:
    put = ConsumerGroupRegistry.set

    def once(self: ConsumerGroupRegistry, kind: TimerKind, group_id: str, *rest: Any) -> None:
        if kind is not TimerKind.SESSION or not self.is_set(kind, group_id, rest[0]):
            put(self, kind, group_id, *rest)

    patch.setattr(ConsumerGroupRegistry, "set", once)


def begins_no_session_after_loading(patch: Patch) -> None:
    patch.setattr(ConsumerGroupCoordinator, "loaded", lambda *_: None)


def never_ends_a_revocation(patch: Patch) -> None:
    """A member that is stuck in its listener, which nobody removes for that."""
    patch.setattr(group_updater, "rebalance_timer", lambda *_: None)
    patch.setattr(ConsumerMember, "_take_up", lambda *_: None)


def forgets_what_a_member_must_give_up(patch: Patch) -> None:
    """What a record 8 says of it is not read."""
    replay = ConsumerGroup._replay_assignment

    def without(group: ConsumerGroup, member_id: str, value: Any) -> None:
        if value is not None:
            value = replace(value, partitions_pending_revocation=())
        replay(group, member_id, value)

    patch.setattr(ConsumerGroup, "_replay_assignment", without)


def leaves_the_target_of_who_left(patch: Patch) -> None:
    remove = GroupUpdater.remove

    def twice(self: GroupUpdater, group: ConsumerGroup, leaving: Any, builder: Any) -> None:
        if len(group.members) > 1:
            leaving = [*leaving, *(each for each in group.members.values() if each not in leaving)][
                :2
            ]
        remove(self, group, leaving, builder)

    patch.setattr(GroupUpdater, "remove", twice)


def upgrades_whatever_the_policy(patch: Patch) -> None:
    patch.setattr(MigrationPolicy, "upgrades", property(lambda _: True))


def downgrades_whatever_the_policy(patch: Patch) -> None:
    patch.setattr(MigrationPolicy, "downgrades", property(lambda _: True))


def refuses_every_upgrade(patch: Patch) -> None:
    def refuse(*_: object) -> Any:
        raise ConversionError("never")

    patch.setattr(conversion, "upgrade_records", refuse)


def refuses_classic_members_of_a_group_that_may_not_come_back(patch: Patch) -> None:
    """As if one way were none: `upgrade` taken for `disabled`."""

    def read(config: GroupConfig) -> MigrationPolicy:
        found = MigrationPolicy(config.group_consumer_migration_policy)
        return MigrationPolicy.DISABLED if found is MigrationPolicy.UPGRADE else found

    patch.setattr(GroupConfig, "policy", property(read))


def resolves_expressions_once(patch: Patch) -> None:
    patch.setattr(group_updater, "needs_resolution", lambda group, *_: not group.regexes)


def resolves_expressions_to_nothing(patch: Patch) -> None:
    patch.setattr(regex_resolution.Resolution, "go_on", lambda _: True)


MUTANTS: list[Mutant] = [
    refuses_every_upgrade,
    frees_what_is_not_acknowledged,
    gives_what_others_hold,
    forgets_who_holds_what_is_to_be_given_up,
    raises_no_epoch_for_topics_that_grew,
    raises_no_epoch_for_who_leaves,
    computes_no_target,
    tells_an_epoch_too_many,
    takes_every_epoch,
    takes_every_commit,
    takes_commits_of_older_epochs,
    removes_nobody_by_time,
    renews_no_session,
    begins_no_session_after_loading,
    never_ends_a_revocation,
    forgets_what_a_member_must_give_up,
    leaves_the_target_of_who_left,
]


OF_POLICIES: list[Mutant] = [
    upgrades_whatever_the_policy,
    downgrades_whatever_the_policy,
    refuses_classic_members_of_a_group_that_may_not_come_back,
]
OF_EXPRESSIONS: list[Mutant] = [resolves_expressions_once, resolves_expressions_to_nothing]


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "mutant", with_long(MUTANTS, takes_every_epoch), ids=lambda mutant: mutant.__name__
)
def test_consumer_group_mutant_is_noticed_by_the_simulation(
    mutant: Mutant, monkeypatch: Patch
) -> None:
    mutant(monkeypatch)
    check_noticed(play_consumer_groups, range(SEEDS), NOTICED[:2])


@pytest.mark.timeout(180)
@pytest.mark.parametrize("mutant", OF_POLICIES, ids=lambda mutant: mutant.__name__)
def test_runs_with_a_migration_policy_notice(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    check_noticed(play_consumer_groups, RUNS_WITH_POLICIES, NOTICED[:2])


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "mutant",
    with_long(OF_EXPRESSIONS, resolves_expressions_once),
    ids=lambda mutant: mutant.__name__,
)
def test_runs_with_expressions_notice(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    check_noticed(play_consumer_groups, RUNS_WITH_PATTERNS, NOTICED[:2])
