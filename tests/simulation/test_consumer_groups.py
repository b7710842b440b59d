"""Run random faults against consumer groups (KIP-848) in virtual time, and prove that the checks can fail.

A failure names its seed: ``random_consumer_run(seed)`` plays it again. Each mutant undoes one thing that a
consumer group's safety rests on, and some seed has to notice.
"""

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from groupsdk.broker.consumer_groups import (
    coordinator,
    departures,
    heartbeat,
    offsets,
    reconciliation,
    records,
    settling,
)
from groupsdk.broker.consumer_groups.coordinator import ConsumerGroupCoordinator
from groupsdk.broker.consumer_groups.departures import Departures
from groupsdk.broker.consumer_groups.group import ConsumerGroup
from groupsdk.broker.consumer_groups.heartbeat import ConsumerHeartbeats
from groupsdk.broker.consumer_groups.member import Holdings
from groupsdk.broker.consumer_groups.registry import ConsumerGroupRegistry, TimerKind
from groupsdk.broker.consumer_groups.settling import Change, Settling
from groupsdk.error_code import ErrorCode
from groupsdk.testing.simulation.broker_world import InvariantError
from groupsdk.testing.simulation.consumer_member import ConsumerMember
from groupsdk.testing.simulation.runs import Tally, play_consumer_groups


CHUNK = 100
QUICK = 600
FULL = int(os.environ.get("GROUPSDK_SEEDS", "20000"))
SEEDS = 600
Patch = pytest.MonkeyPatch
Mutant = Callable[[Patch], None]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Members under faults log a lot, and nobody reads it."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def _check(first: int) -> None:
    tally = Tally()
    for violation in play_consumer_groups(range(first, first + CHUNK), tally):
        pytest.fail(str(violation))
    assert tally.runs == CHUNK
    assert tally.rebalances > CHUNK
    assert tally.commits > CHUNK


@pytest.mark.parametrize("first", range(0, QUICK, CHUNK))
def test_faults(first: int) -> None:
    _check(first)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(1_000_000, 1_000_000 + FULL, CHUNK))
def test_many_faults(first: int) -> None:
    _check(first)


# -- mutants of the coordinator


def frees_what_is_not_acknowledged(patch: Patch) -> None:
    patch.setattr(reconciliation, "_owns_any", lambda *_: False)


def gives_what_others_hold(patch: Patch) -> None:
    patch.setattr(ConsumerGroup, "is_held_by_another", lambda *_: False)


def forgets_who_holds_what_is_to_be_given_up(patch: Patch) -> None:
    hold = ConsumerGroup._hold

    def forgetful(group: ConsumerGroup, member_id: str, holdings: Holdings) -> None:
        if holdings is not group.members[member_id].pending:
            hold(group, member_id, holdings)

    patch.setattr(ConsumerGroup, "_hold", forgetful)


def raises_no_epoch_for_topics_that_grew(patch: Patch) -> None:
    patch.setattr(Settling, "needs_refresh", lambda *_: False)


def takes_growth_as_seen_before_it_is_written(patch: Patch) -> None:
    """The mistake that the simulation found in the broker."""
    bump = Settling.bump_epoch

    def hasty(self: Settling, draft: Any, change: Change) -> None:
        bump(self, draft, change)
        self._seen[draft.group.group_id] = self.image().version

    patch.setattr(Settling, "bump_epoch", hasty)


def raises_no_epoch_for_who_leaves(patch: Patch) -> None:
    made = records.group_epoch

    def same(group_id: str, epoch: int, hashed: int) -> Any:
        return made(group_id, epoch - 1, hashed)

    patch.setattr(departures, "group_epoch", same)


def computes_no_target(patch: Patch) -> None:
    patch.setattr(Settling, "update_target", lambda *_: None)


def tells_an_epoch_too_many(patch: Patch) -> None:
    handle = ConsumerHeartbeats._heartbeat

    def ahead(self: ConsumerHeartbeats, *given: Any) -> Any:
        answer = handle(self, *given)
        return replace(answer, member_epoch=answer.member_epoch + 1)

    patch.setattr(ConsumerHeartbeats, "_heartbeat", ahead)


def takes_every_epoch(patch: Patch) -> None:
    patch.setattr(heartbeat, "_check_epoch", lambda *_: None)


def takes_every_commit(patch: Patch) -> None:
    patch.setattr(coordinator, "commit_error", lambda *_: ErrorCode.NONE)


def takes_commits_of_older_epochs(patch: Patch) -> None:
    check = offsets.commit_error

    def lenient(group: ConsumerGroup, member_id: str, epoch: int, *rest: Any) -> ErrorCode:
        member = group.members.get(member_id)
        if member is not None and epoch >= 0:
            epoch = member.epoch
        found: ErrorCode = check(group, member_id, epoch, *rest)
        return found

    patch.setattr(coordinator, "commit_error", lenient)


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
    patch.setattr(settling, "rebalance_timer", lambda *_: None)
    patch.setattr(ConsumerMember, "_revoked", lambda *_: None)


def forgets_what_a_member_must_give_up(patch: Patch) -> None:
    """What a record 8 says of it is not read."""
    replay = ConsumerGroup._replay_assignment

    def without(group: ConsumerGroup, member_id: str, value: Any) -> None:
        if value is not None:
            value = replace(value, partitions_pending_revocation=())
        replay(group, member_id, value)

    patch.setattr(ConsumerGroup, "_replay_assignment", without)


def leaves_the_target_of_who_left(patch: Patch) -> None:
    remove = Departures.remove

    def twice(self: Departures, group: ConsumerGroup, leaving: Any, turn: Any) -> None:
        if len(group.members) > 1:
            leaving = [*leaving, *(each for each in group.members.values() if each not in leaving)][
                :2
            ]
        remove(self, group, leaving, turn)

    patch.setattr(Departures, "remove", twice)


# -- mutants of the member: the checks see through a member that lies, too


def works_on_before_it_says_so(patch: Patch) -> None:
    patch.setattr(ConsumerMember, "_revoked", lambda self, step: self._later(step, self._assigned))
    patch.setattr(
        ConsumerMember, "_assigned", lambda self: self._own(self.owned | (self.target or set()))
    )


def acknowledges_before_its_listeners_are_done(patch: Patch) -> None:
    reconcile = ConsumerMember._reconcile

    def hasty(self: ConsumerMember, target: frozenset[Any]) -> None:
        owned = self.owned
        reconcile(self, target)
        self.owned = owned & target

        def late() -> None:
            if self.alive:
                self.owned = owned

        self._timeline.after(5_000, late)

    patch.setattr(ConsumerMember, "_reconcile", hasty)


MUTANTS: list[Mutant] = [
    frees_what_is_not_acknowledged,
    gives_what_others_hold,
    forgets_who_holds_what_is_to_be_given_up,
    raises_no_epoch_for_topics_that_grew,
    takes_growth_as_seen_before_it_is_written,
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
    works_on_before_it_says_so,
    acknowledges_before_its_listeners_are_done,
]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_the_simulation_notices(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    tally = Tally()
    for violation in play_consumer_groups(range(SEEDS), tally):
        what = str(violation).splitlines()[0]
        print(f"caught by run {tally.runs}: {what}")
        assert "invariant " in what or "time stands still" in what, "the mutant itself is broken"
        assert isinstance(violation, InvariantError)
        return
    pytest.fail(f"{SEEDS} seeds, and none noticed")
