"""Simulate commits by members' epochs, in transactions too, and several groups, and prove that the checks can fail.

A seed names whether a run has transactions or several groups. Each mutant undoes one thing that a group's offsets
rest on, or that keeps groups apart, and some seed has to notice.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from groupsdk.broker.coordinator.consumer.group import ConsumerGroup
from groupsdk.broker.coordinator.consumer.registry import ConsumerGroupRegistry, TimerKind
from groupsdk.broker.coordinator.offsets import commit_validation
from groupsdk.broker.coordinator.offsets.commit_validation import CommitRequest
from groupsdk.broker.coordinator.offsets.offset_metadata_manager import OffsetStore
from groupsdk.consumer.commits import Committer
from groupsdk.error_code import ErrorCode
from groupsdk.member.consumer.membership import ConsumerMembership
from groupsdk.wire.messages.transactions import TxnOffsetCommitRequest
from tests.simulation.checks import check_noticed, play_consumer_groups
from tests.simulation.watched_consumers import random_consumer_run
from tests.support.cases import with_long


SEEDS = 400
WITH_TRANSACTIONS = tuple(each for each in range(9 * SEEDS) if each % 9 in (1, 6))[:SEEDS]
WITH_SEVERAL_GROUPS = range(5, 8 * SEEDS, 8)
WITH_BOTH = tuple(each for each in range(5, 36 * SEEDS, 8) if each % 9 in (1, 6))[:SEEDS]
LATE_HEARTBEATS = (217, 1158)
"""Harsh runs in which the broker told an assignment in answer to a heartbeat of a lost connection."""
OVERTAKEN = (447, 892)
"""Harsh runs in which the broker reads a commit after a later one of the same process, sent over its next connection."""
Patch = pytest.MonkeyPatch
pytestmark = pytest.mark.usefixtures("quiet")
Mutant = Callable[[Patch], None]


def test_transactions_are_committed_and_refused() -> None:
    worlds = [random_consumer_run(seed, extended=True) for seed in WITH_TRANSACTIONS[:12]]
    assert all(each.has_transactions for each in worlds)
    assert (
        sum(watch.offsets.transactions for each in worlds for watch in each.watches.values()) > 12
    )


def test_several_groups_have_epochs_and_commits_of_their_own() -> None:
    worlds = [random_consumer_run(seed, extended=True) for seed in WITH_SEVERAL_GROUPS[:6]]
    for watch in (each for world in worlds for each in world.watches.values()):
        assert watch.epochs > 0
    assert all(
        any(world.watches[group_id].offsets.commits for world in worlds) for group_id in "gh"
    )


@pytest.mark.parametrize("seed", LATE_HEARTBEATS)
def test_no_assignment_is_missed_for_good(seed: int) -> None:
    random_consumer_run(seed, harsh=True, extended=True)


def test_a_static_member_may_come_back_between_two_cooperative_rebalances() -> None:
    """What it gave up has no owner then until the group changes: its return makes no new assignment."""
    random_consumer_run(77_002_067, harsh=True, extended=True)


@pytest.mark.parametrize("seed", OVERTAKEN)
def test_a_commit_may_be_overtaken_by_the_next_connection_of_its_own_process(seed: int) -> None:
    world = random_consumer_run(seed, harsh=True, extended=True)
    assert any(watch.offsets.overtaken for watch in world.watches.values())


# -- mutants of what fences commits


def takes_every_transactional_commit(patch: Patch) -> None:
    check = commit_validation._of_consumer_group

    def lenient(group: ConsumerGroup, request: CommitRequest, *rest: Any, **more: Any) -> ErrorCode:
        if type(request) is TxnOffsetCommitRequest:
            return ErrorCode.NONE
        return check(group, request, *rest, **more)

    patch.setattr(commit_validation, "_of_consumer_group", lenient)


def takes_transactional_commits_of_older_epochs(patch: Patch) -> None:
    check = commit_validation._of_consumer_group

    def lenient(group: ConsumerGroup, request: CommitRequest, *rest: Any, **more: Any) -> ErrorCode:
        member = group.members.get(request.member_id)
        if (
            type(request) is TxnOffsetCommitRequest
            and member is not None
            and 0 <= request.generation_id_or_member_epoch < member.epoch
        ):
            return ErrorCode.NONE
        return check(group, request, *rest, **more)

    patch.setattr(commit_validation, "_of_consumer_group", lenient)


def shows_what_a_transaction_may_change(patch: Patch) -> None:
    patch.setattr(OffsetStore, "is_unstable", lambda *_: False)


def stores_what_was_aborted(patch: Patch) -> None:
    replay = OffsetStore.replay_marker

    def commit(store: OffsetStore, producer_id: int, *, committed: bool) -> None:
        replay(store, producer_id, committed=True)

    patch.setattr(OffsetStore, "replay_marker", commit)


def leaves_transactions_open(patch: Patch) -> None:
    patch.setattr(OffsetStore, "replay_marker", lambda *_, **__: None)


def repeats_commits_that_a_later_one_has_overtaken(patch: Patch) -> None:
    patch.setattr(Committer, "_superseded", lambda *_: False)


def carries_commits_over_into_another_membership(patch: Patch) -> None:
    """As if a commit were about what the member has, and not about what it had."""
    patch.setattr(ConsumerMembership, "is_of_membership", lambda *_: True)
    patch.setattr(Committer, "_superseded", lambda *_: False)


# -- mutants of what keeps groups apart


def forgets_all_groups_with_one(patch: Patch) -> None:
    remove = ConsumerGroupRegistry.remove

    def clear(registry: ConsumerGroupRegistry, group_id: str) -> None:
        for each in (group_id, *registry.groups):
            remove(registry, each)

    patch.setattr(ConsumerGroupRegistry, "remove", clear)


def serves_offsets_of_the_first_group(patch: Patch) -> None:
    """As from a table by topic and partition alone."""
    patch.setattr(OffsetStore, "topics", lambda store, _: next(iter(store._by_group.values()), {}))


def counts_heartbeats_for_the_first_group(patch: Patch) -> None:
    put = ConsumerGroupRegistry.set

    def misplaced(
        registry: ConsumerGroupRegistry, kind: TimerKind, group_id: str, *rest: Any
    ) -> None:
        if kind is TimerKind.SESSION:
            group_id = next(iter(registry.groups), group_id)
        put(registry, kind, group_id, *rest)

    patch.setattr(ConsumerGroupRegistry, "set", misplaced)


def ends_transactions_in_another_group(patch: Patch) -> None:
    replay = OffsetStore.replay_marker

    def end(store: OffsetStore, producer_id: int, *, committed: bool) -> None:
        pending = store._pending.get(producer_id, {})
        first = next(iter(store.all_group_ids()), None)
        if first is not None and pending and first not in pending:
            for group_id in tuple(pending):
                store._close(group_id, producer_id)
                store._open.setdefault(first, set()).add(producer_id)
                pending[first] = pending.pop(group_id)
        replay(store, producer_id, committed=committed)

    patch.setattr(OffsetStore, "replay_marker", end)


OF_COMMITS: list[Mutant] = [
    takes_every_transactional_commit,
    takes_transactional_commits_of_older_epochs,
    shows_what_a_transaction_may_change,
    stores_what_was_aborted,
    leaves_transactions_open,
    repeats_commits_that_a_later_one_has_overtaken,
    carries_commits_over_into_another_membership,
]
OF_SEVERAL_GROUPS: list[Mutant] = [
    forgets_all_groups_with_one,
    serves_offsets_of_the_first_group,
    counts_heartbeats_for_the_first_group,
]
OF_LATE_COMMITS: list[Mutant] = [
    takes_every_transactional_commit,
    repeats_commits_that_a_later_one_has_overtaken,
    carries_commits_over_into_another_membership,
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", OF_COMMITS, ids=lambda mutant: mutant.__name__)
def test_runs_with_transactions_notice(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    check_noticed(partial(play_consumer_groups, extended=True), WITH_TRANSACTIONS)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "mutant",
    with_long(OF_SEVERAL_GROUPS, forgets_all_groups_with_one),
    ids=lambda mutant: mutant.__name__,
)
def test_runs_with_several_groups_notice(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    check_noticed(partial(play_consumer_groups, extended=True), WITH_SEVERAL_GROUPS)


@pytest.mark.timeout(300)
def test_runs_with_transactions_of_several_groups_notice(monkeypatch: Patch) -> None:
    ends_transactions_in_another_group(monkeypatch)
    check_noticed(partial(play_consumer_groups, extended=True), WITH_BOTH)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", OF_LATE_COMMITS, ids=lambda mutant: mutant.__name__)
def test_runs_that_read_commits_late_notice(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    check_noticed(partial(play_consumer_groups, extended=True, harsh=True), WITH_TRANSACTIONS)
