"""Simulate commits by members' epochs, in transactions too, and several groups, and prove that the checks can fail.

A seed names whether a run has transactions or several groups. Each mutant undoes one thing that a group's offsets
rest on, or that keeps groups apart, and some seed has to notice.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from groupsdk.broker.consumer_groups import coordinator, offsets
from groupsdk.broker.consumer_groups.group import ConsumerGroup
from groupsdk.broker.consumer_groups.registry import ConsumerGroupRegistry
from groupsdk.broker.group_coordinator.offset_metadata_manager import OffsetStore
from groupsdk.consumer.commits import Committer
from groupsdk.consumer_membership.caller_requests import CallerRequests
from groupsdk.error_code import ErrorCode
from groupsdk.testing.simulation.broker_world import InvariantError
from groupsdk.testing.simulation.consumer_run import random_consumer_run
from groupsdk.testing.simulation.runs import Tally, play_consumer_groups


SEEDS = 400
WITH_TRANSACTIONS = tuple(each for each in range(9 * SEEDS) if each % 9 in (1, 6))[:SEEDS]
WITH_SEVERAL_GROUPS = range(5, 8 * SEEDS, 8)
Patch = pytest.MonkeyPatch
Mutant = Callable[[Patch], None]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_transactions_are_committed_and_refused() -> None:
    worlds = [random_consumer_run(seed, extended=True) for seed in WITH_TRANSACTIONS[:12]]
    assert all(each.has_transactions for each in worlds)
    assert sum(each.watches.transactions for each in worlds) > 12


def test_several_groups_have_epochs_and_commits_of_their_own() -> None:
    worlds = [random_consumer_run(seed, extended=True) for seed in WITH_SEVERAL_GROUPS[:6]]
    for watch in (each for world in worlds for each in world.watches):
        assert watch.epochs > 0
    assert all(
        any(world.watches[group_id].offsets.commits for world in worlds) for group_id in "gh"
    )


# -- mutants of what fences commits


def takes_every_transactional_commit(patch: Patch) -> None:
    patch.setattr(coordinator, "transaction_error", lambda *_: ErrorCode.NONE)


def takes_transactional_commits_of_older_epochs(patch: Patch) -> None:
    check = offsets.transaction_error

    def lenient(group: ConsumerGroup, member_id: str, epoch: int, *rest: Any) -> ErrorCode:
        member = group.members.get(member_id)
        if member is not None and 0 <= epoch < member.epoch:
            return ErrorCode.NONE
        return check(group, member_id, epoch, *rest)

    patch.setattr(coordinator, "transaction_error", lenient)


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
    patch.setattr(CallerRequests, "_is_ours", lambda *_: True)
    patch.setattr(Committer, "_superseded", lambda *_: False)


# -- mutants of what keeps groups apart


def forgets_all_groups_with_one(patch: Patch) -> None:
    remove = ConsumerGroupRegistry.remove

    def clear(registry: ConsumerGroupRegistry, group_id: str) -> None:
        for each in (group_id, *registry.groups):
            remove(registry, each)

    patch.setattr(ConsumerGroupRegistry, "remove", clear)


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
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", OF_COMMITS, ids=lambda mutant: mutant.__name__)
def test_runs_with_transactions_notice(mutant: Mutant, monkeypatch: Patch) -> None:
    _is_noticed(mutant, monkeypatch, WITH_TRANSACTIONS)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", OF_SEVERAL_GROUPS, ids=lambda mutant: mutant.__name__)
def test_runs_with_several_groups_notice(mutant: Mutant, monkeypatch: Patch) -> None:
    _is_noticed(mutant, monkeypatch, WITH_SEVERAL_GROUPS)


def _is_noticed(mutant: Mutant, patch: Patch, seeds: Iterable[int]) -> None:
    mutant(patch)
    tally = Tally()
    for violation in play_consumer_groups(seeds, tally, extended=True):
        what = str(violation).splitlines()[0]
        print(f"caught by run {tally.runs}: {what}")
        assert "invariant " in what, "the mutant itself is broken"
        assert isinstance(violation, InvariantError)
        return
    pytest.fail(f"{tally.runs} seeds, and none noticed")
