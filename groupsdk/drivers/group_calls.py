"""Ask the group coordinator on the caller's behalf: commit offsets, read them, describe the group; with retries.

Java's subclasses of `AbstractCoordinator` send the same requests through its client (`ConsumerCoordinator`).
"""

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from functools import partial
from random import Random
from typing import Any, Final, TypeVar

from groupsdk import errors
from groupsdk.assignment import TopicPartition
from groupsdk.clock import Clock, Deadline
from groupsdk.drivers.caller import Await, Sleep, checked_timeout_ms
from groupsdk.error_code import ErrorCode
from groupsdk.member.requests import CoordinatorRequest
from groupsdk.member.state import IN_REBALANCE
from groupsdk.offsets import (
    Offsets,
    check_commit,
    check_offsets,
    checked_partitions,
    commit_request,
    fetch_request,
    read_fetched,
)
from groupsdk.settings.backoff import ExponentialBackoff
from groupsdk.settings.config import MemberConfig
from groupsdk.snapshot import MemberSnapshot
from groupsdk.types import (
    DescribedMember,
    GroupDescription,
    OffsetAndMetadata,
)
from groupsdk.wire.messages.groups import DescribeGroupsRequest, DescribeGroupsResponse
from groupsdk.wire.schema import Response


T = TypeVar("T")

_LONG_MS: Final = 2**31 - 1
_UNSTABLE_MS: Final = 100


Steps = Generator[Await | Sleep, None, T]
"""What a call waits for; the result is its return value."""

Ask = Callable[[CoordinatorRequest], Future[Response]]
"""Sends the coordinator a request; see `MemberInterface.ask`."""


def is_retriable(error: errors.GroupSdkError) -> bool:
    return error.retriable


class RepeatedCalls:
    """Requests of one member that are repeated, with a backoff, while their errors may pass."""

    def __init__(self, ask: Ask, clock: Clock, backoff: ExponentialBackoff, random: Random) -> None:
        self.ask = ask
        self._clock = clock
        self._backoff = backoff
        self._random = random

    def steps(
        self,
        request: CoordinatorRequest,
        read: Callable[[Any], T],
        deadline: Deadline,
        repeatable: Callable[[errors.GroupSdkError], bool] = is_retriable,
    ) -> Steps[T]:
        """Return the result of `read`, which may raise the error in a response; at least one attempt, and the last error."""
        attempts = 0
        last: errors.GroupSdkError | None = None
        while True:
            try:
                answer = self.ask(request)
                left_ms = deadline.remaining_ms(_LONG_MS)
                yield Await(answer, left_ms)
                if not answer.done():
                    # an answer that came says more than one that had no time to come
                    raise last or errors.RequestTimeoutError(
                        f"no answer from the group coordinator within {left_ms} ms"
                    )
                return read(answer.result(0))
            except errors.GroupSdkError as error:
                if not repeatable(error) or deadline.expired:
                    raise
                last = error
            delay_ms = self._backoff.backoff_ms(attempts, self._random)
            yield Sleep(deadline.remaining_ms(delay_ms), last)
            attempts += 1

    def committed(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        deadline: Deadline,
        repeatable: Callable[[errors.GroupSdkError], bool] = is_retriable,
    ) -> Steps[dict[TopicPartition, OffsetAndMetadata | None]]:
        """Fetch committed offsets, waiting for those of open transactions (KIP-447) until RequestTimeoutError."""
        offsets: dict[TopicPartition, OffsetAndMetadata | None] = {}
        left = set(partitions)
        while left:
            asked = frozenset(left)
            some, left = yield from self.steps(
                fetch_request(group_id, asked),
                partial(read_fetched, partitions=asked),
                deadline,
                repeatable,
            )
            offsets |= some
            if left and deadline.expired:
                raise errors.RequestTimeoutError(
                    f"group={group_id}: offsets of {len(left)} partitions are part of a transaction that is"
                    " still open"
                )
            if left:
                yield Sleep(deadline.remaining_ms(_UNSTABLE_MS))
        return offsets


class GroupCalls:
    """The calls of one member. Each may be made by any thread, and runs on that alone."""

    def __init__(
        self,
        ask: Ask,
        snapshot: Callable[[], MemberSnapshot],
        config: MemberConfig,
        clock: Clock,
    ) -> None:
        self._snapshot = snapshot
        self._config = config
        self._clock = clock
        backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._calls = RepeatedCalls(ask, clock, backoff, Random())

    def commit(self, offsets: Offsets, timeout: float | None) -> Steps[None]:
        """Commit offsets under the member's current generation, even if it changes meanwhile."""
        deadline = Deadline(self._clock, checked_timeout_ms(timeout))
        check_offsets(offsets)
        if not offsets:
            return
        snapshot = self._snapshot()
        if not snapshot.stable:
            raise self._not_stable(snapshot)
        try:
            yield from self._calls.steps(
                commit_request(snapshot, offsets),
                partial(check_commit, offsets=offsets),
                deadline,
            )
        except (errors.IllegalGenerationError, errors.UnknownMemberIdError) as error:
            raise self._commit_failed(snapshot, f" ({error})") from error

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None
    ) -> Steps[dict[TopicPartition, OffsetAndMetadata | None]]:
        deadline = Deadline(self._clock, checked_timeout_ms(timeout))
        wanted = checked_partitions(partitions)
        return (yield from self._calls.committed(self._config.group_id, wanted, deadline))

    def describe(self, timeout: float | None) -> Steps[GroupDescription]:
        """Read the group's state and members; BrokerError if the coordinator refuses."""
        deadline = Deadline(self._clock, checked_timeout_ms(timeout))
        request = DescribeGroupsRequest(groups=(self._config.group_id,))
        return (yield from self._calls.steps(request, self._described, deadline))

    def _described(self, response: DescribeGroupsResponse) -> GroupDescription:
        asked = f"DescribeGroups of group {self._config.group_id!r}"
        if len(response.groups) != 1:
            raise errors.broker_error(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"{asked}, which left the group out"
            )
        (group,) = response.groups
        if group.error_code:
            raise errors.broker_error(group.error_code, asked)
        return GroupDescription(
            group_id=group.group_id,
            state=group.group_state,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_data,
            members=tuple(
                DescribedMember(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    metadata=member.member_metadata,
                    assignment=member.member_assignment,
                )
                for member in group.members
            ),
        )

    def _not_stable(self, snapshot: MemberSnapshot) -> errors.GroupSdkError:
        if snapshot.holds and snapshot.state in IN_REBALANCE:
            return errors.RebalanceInProgressError(
                ErrorCode.REBALANCE_IN_PROGRESS,
                f"OffsetCommit of group {snapshot.group_id!r}, which has to wait for the end of a rebalance: poll"
                " first",
            )
        return self._commit_failed(snapshot, "")

    def _commit_failed(self, snapshot: MemberSnapshot, why: str) -> errors.CommitFailedError:
        return errors.CommitFailedError(
            f"group={snapshot.group_id} member={snapshot.member_id or '-'}"
            f" generation={snapshot.generation.generation_id}: offsets were not stored, as the member is out of"
            f" that generation, and others may have its work{why}"
        )
