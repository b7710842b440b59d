"""Commit offsets under the generation in which they were read, synchronously or in the background."""

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Protocol

from groupsdk.clock import Clock, Deadline
from groupsdk.consumer.calls import CallGivenUpError, CoordinatorCalls, repeatable
from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    CommitFailedError,
    GroupSdkError,
    IllegalGenerationError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)
from groupsdk.member.state import IN_REBALANCE, MemberState
from groupsdk.offsets import Offsets, check_commit, commit_request
from groupsdk.snapshot import MemberSnapshot, log_member
from groupsdk.wire.schema import Response


logger = logging.getLogger(__name__)

CommitCallback = Callable[[GroupSdkError | None, Offsets], object]
"""Called with the error of a commit, or None, and its offsets."""

_RETRIES: Final = 10
_RETRY_AFTER_MS: Final = 100
_FENCED: Final = (IllegalGenerationError, StaleMemberEpochError, UnknownMemberIdError)
_SYNC_WAIT_MS: Final = 1_000
"""How long a member that is about to leave waits for the end of a rebalance in which it has joined."""
_LOOK_MS: Final = 20


class CommittingMember(Protocol):
    """The member under whose generation offsets are committed."""

    def snapshot(self) -> MemberSnapshot: ...

    def give_up_join(self) -> None:
        """Abandon a parked JoinGroup, which blocks the connection to the coordinator."""
        ...


@dataclass(slots=True)
class _Pending:
    number: int
    snapshot: MemberSnapshot
    offsets: Offsets
    callback: CommitCallback | None
    asked: "Future[Response] | None"
    attempts: int = 0
    not_before_ms: int = 0
    error: GroupSdkError | None = None
    """The error of the last attempt, if it is to be repeated."""


class Committer:
    """Commits the offsets of one consumer; belongs to one thread.

    Every commit carries generation, member id and instance id of one snapshot: the broker refuses it once
    the group has a generation without this member. By the time that an error is raised here, the member has reacted to
    what it says about the membership. `leaving`: the member is about to leave, so that no later commit can make up for this one.
    """

    def __init__(
        self,
        calls: CoordinatorCalls,
        member: CommittingMember,
        clock: Clock,
        leaving: Callable[[], bool],
    ) -> None:
        self._calls = calls
        self._member = member
        self._clock = clock
        self._leaving = leaving
        self._pending: deque[_Pending] = deque()
        self._last_number = 0

    def commit(
        self,
        offsets: Offsets,
        timeout_ms: int | None,
        repeatable: Callable[[GroupSdkError], bool] = repeatable,
    ) -> None:
        """Commit offsets, with retries after the errors for which `repeatable` returns True.

        Raises:
            CallGivenUpError: the caller has stopped waiting; the commit continues in the background.
            RebalanceInProgressError: the group rebalances; poll, then commit what is still owned.
            CommitFailedError: the member is out of the group, and others may have its partitions.
            FencedInstanceIdError: another process has taken the group.instance.id.
        """
        if not offsets:
            return
        snapshot = self._fence(timeout_ms)
        self._last_number += 1
        try:
            self._calls.call(
                commit_request(snapshot, offsets),
                lambda response: check_commit(response, offsets),
                timeout_ms,
                repeatable,
            )
        except CallGivenUpError as left:
            number = self._last_number
            self._pending.append(
                _Pending(number, snapshot, offsets, None, left.asked, error=left.error)
            )
            raise
        except _FENCED as error:
            raise self._failed(snapshot, error) from error

    def commit_async(self, offsets: Offsets, callback: CommitCallback | None = None) -> None:
        """Commit offsets in the background; `settle` calls `callback` with the error, or None, and the offsets.

        A commit that failed by something passing is repeated, unless a later one has been made by then: repeated
        after that one, it would set the group back. Without any offsets nothing is sent.

        Raises:
            RebalanceInProgressError: the group rebalances.
            CommitFailedError: the member is out of the group.
        """
        if not offsets:
            return
        snapshot = self._fence(0)
        self._last_number += 1
        asked = self._calls.ask(commit_request(snapshot, offsets))
        self._pending.append(_Pending(self._last_number, snapshot, offsets, callback, asked))

    @property
    def busy(self) -> bool:
        """Whether a commit in the background has not been settled."""
        return bool(self._pending)

    def settle(self, *, last: bool = False) -> None:
        """Call the callbacks of finished commits in order; `last`: fail commits that would be repeated."""
        while self._pending:
            first = self._pending[0]
            if first.asked is None and not last and not self._superseded(first):
                if self._clock.now_ms() < first.not_before_ms:
                    return
                first.asked = self._calls.ask(commit_request(first.snapshot, first.offsets))
            error = first.error
            if first.asked is not None:
                if not first.asked.done():
                    return
                error = _error_of(first.asked, first.offsets)
                if error is not None and not last and self._repeat(first, error):
                    return
            self._pending.popleft()
            if isinstance(error, _FENCED):
                error = self._failed(first.snapshot, error)
            self._report(first, error)

    @property
    def last_number(self) -> int:
        """Counts the commits made so far."""
        return self._last_number

    def _superseded(self, pending: _Pending) -> bool:
        """Return whether a commit must not be retried: there is a newer one, or the assignment has changed.

        The second is not the broker's to tell: with members of KIP-848 in the group, the generation may be the
        same, in which it takes offsets of partitions that are another member's by now.
        """
        epoch = self._member.snapshot().assignment_epoch
        return pending.number != self._last_number or pending.snapshot.assignment_epoch != epoch

    def _repeat(self, pending: _Pending, error: GroupSdkError) -> bool:
        if not repeatable(error) or pending.attempts >= _RETRIES:
            return False
        if self._superseded(pending):
            return False
        pending.attempts += 1
        pending.asked = None
        pending.error = error
        pending.not_before_ms = self._clock.now_ms() + _RETRY_AFTER_MS * pending.attempts
        return True

    def _report(self, pending: _Pending, error: GroupSdkError | None) -> None:
        if pending.callback is not None:
            pending.callback(error, pending.offsets)
        elif error is not None:
            count, message = len(pending.offsets), "a commit of %d offsets failed: %s"
            log_member(logger, logging.WARNING, lambda: pending.snapshot, message, count, error)

    def _fence(self, wait_ms: int | None) -> MemberSnapshot:
        snapshot = self._member.snapshot()
        if snapshot.stable:
            return snapshot
        if not snapshot.generation.is_reset and snapshot.state in IN_REBALANCE:
            if snapshot.holds and self._leaving():
                return self._last_chance(wait_ms)
            raise RebalanceInProgressError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"commit of group {snapshot.group_id!r}, which has to wait for the end of a rebalance: poll first",
            )
        raise self._failed(snapshot, None)

    def _last_chance(self, wait_ms: int | None) -> MemberSnapshot:
        """Return the state under which the coordinator may still take a commit while the group rebalances."""
        self._member.give_up_join()
        snapshot = self._member.snapshot()
        longest_ms = _SYNC_WAIT_MS if wait_ms is None else min(wait_ms, _SYNC_WAIT_MS)
        deadline = Deadline(self._clock, longest_ms)
        while snapshot.state is MemberState.COMPLETING_REBALANCE and not deadline.expired:
            self._calls.pause(_LOOK_MS)
            snapshot = self._member.snapshot()
        return snapshot

    def _failed(self, snapshot: MemberSnapshot, error: GroupSdkError | None) -> CommitFailedError:
        """Build the error for a commit without a generation, or one that the group refuses."""
        if snapshot.assignment_epoch == 0:
            return CommitFailedError(
                f"group={snapshot.group_id}: this consumer has not joined yet, and without a generation nobody"
                " would fence its commit: subscribe and poll first"
            )
        why = f" ({error})" if error is not None else ""
        return CommitFailedError(
            f"group={snapshot.group_id} member={snapshot.member_id or '-'}"
            f" generation={snapshot.generation.generation_id}: the group has rebalanced without this member,"
            " which polled too late or was cut off; its partitions may have other owners, and the records"
            f" since the last commit will be read again{why}"
        )


def _error_of(asked: "Future[Response]", offsets: Offsets) -> GroupSdkError | None:
    error = asked.exception()
    if error is None:
        try:
            check_commit(asked.result(), offsets)
        except GroupSdkError as refused:
            return refused
        return None
    assert isinstance(error, GroupSdkError)
    return error
