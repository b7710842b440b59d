"""Offer Java's shape for asyncio: a class to subclass, `AsyncAbstractCoordinator`."""

import weakref
from abc import abstractmethod
from collections.abc import Awaitable, Iterable, Mapping
from typing import Self

from typing_extensions import override

from groupsdk.assignment import TopicPartition
from groupsdk.clock import Clock
from groupsdk.config import MemberConfig
from groupsdk.coordinator import Protocols
from groupsdk.drivers.aio.member import AsyncGroupMember
from groupsdk.drivers.coordinator_base import CoordinatorBase
from groupsdk.types import (
    GroupDescription,
    GroupMembers,
    GroupMembershipOperation,
    OffsetAndMetadata,
)


class AsyncAbstractCoordinator(CoordinatorBase[AsyncGroupMember]):
    """`AbstractCoordinator` for asyncio: subclass it and fill in four methods.

    Yours: `protocol_type`, `metadata`, `perform_assignment` and `on_join_complete`; if you need them also
    `on_join_prepare`, `on_leave_prepare` and `on_assignment_skipped`. Each method may be a `def` or an
    `async def`. They run inside `ensure_active_group`, `poll`, `leave_group` and `close`, in the task that
    awaits these.

    The heartbeat never runs on your event loop: blocking the loop delays it by nothing, and only
    max.poll.interval.ms bounds how long you may stay away from `poll`.

    One task at a time drives the member. What is not awaited may be called from any task and any thread.

    One that is dropped without `close` gives a `ResourceWarning`, and leaves its group then.

    Args:
        settings: Kafka's keys, e.g. ``{"bootstrap.servers": "...", "group.id": "..."}``, or a `MemberConfig`.
        clock: the time; for tests.
        keywords: the same as keywords, e.g. ``group_id="..."``.

    Raises:
        ConfigError: a setting is unknown, missing or wrong.
    """

    @override
    def _make_member(self, config: MemberConfig, clock: Clock | None) -> AsyncGroupMember:
        # weakly: what refers to each other ends only when the garbage collector finds it, and the group
        # would wait for a member that was dropped
        return AsyncGroupMember(weakref.proxy(self), config, clock)

    # Yours to fill in.

    protocol_type: str
    """The kind of group, e.g. "work"; the same for all members."""

    @abstractmethod
    def metadata(self) -> Protocols | Awaitable[Protocols]:
        """Return what to join with: protocol names by preference, each with this member's metadata."""

    @abstractmethod
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Mapping[str, bytes] | Awaitable[Mapping[str, bytes]]:
        """Share the work out, as the leader: return member id to assignment."""

    @abstractmethod
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> Awaitable[None] | None:
        """Take up the assignment of a new generation; called again with the same bytes when it raised."""

    def on_join_prepare(self, generation: int, member_id: str) -> Awaitable[None] | None:
        """Give up what must not run twice, before each rebalance; -1 and "": it is lost already."""

    def on_assignment_skipped(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Awaitable[None] | None:
        """Note whom this member leads, in place of `perform_assignment`: the group keeps its assignments.

        It leads again as the static member that it was (KIP-814).
        """

    def on_leave_prepare(self) -> Awaitable[None] | None:
        """Give up all work, before the member leaves or closes."""

    # The library's.

    async def ensure_active_group(self, timeout: float | None = None) -> bool:
        """Join, and wait until the member has taken up its assignment in a stable generation.

        Args:
            timeout: seconds to wait at most; None: for ever.

        Returns:
            Whether the member is active; False when the time was over, or `wakeup` was called.

        Raises:
            GroupSdkError: what went wrong, in this call or in the background since the last one.
            Exception: whatever a callback raised.
        """
        return await self._member.ensure_active_group(timeout)

    async def poll(self, timeout: float = 0.0) -> bool:
        """Show that the caller is alive, and run the callbacks that are due.

        Await it at least every max.poll.interval.ms, or the member leaves by itself. Returns early when a
        new assignment was taken up.

        Args:
            timeout: seconds to wait at most for something to do.

        Returns:
            Whether the member is active at the end.

        Raises:
            GroupSdkError: what went wrong, in this call or in the background since the last one.
            Exception: whatever a callback raised.
        """
        return await self._member.poll(timeout)

    async def leave_group(self, reason: str) -> None:
        """Leave the group now; the next `poll` or `ensure_active_group` joins again."""
        await self._member.leave_group(reason)

    async def commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float | None = 30.0
    ) -> None:
        """Store offsets in the group under this member's generation, which the coordinator checks (OffsetCommit).

        The generation is that of the beginning of the call: what was worked out under it is never committed
        under a later one. May be called by any thread, and in `on_join_prepare`, `on_join_complete` and
        `on_leave_prepare`.

        Args:
            offsets: partition to offset, of topics that the cluster has; what they mean is up to the group.
            timeout: seconds to try, retriable errors included; None: for ever.

        Raises:
            RebalanceInProgressError: the group rebalances; poll, then commit what is still owned.
            CommitFailedError: the member is out of the group, and others may have its work.
            FencedInstanceIdError: another process has taken the group.instance.id.
            BrokerError: the coordinator refuses for another reason.
            NetworkError: no answer in time.
            MemberClosedError: the member is closed.
        """
        await self._member.commit_offsets(offsets, timeout)

    async def committed_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = 30.0
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the stored offset of each partition, None where there is none (OffsetFetch).

        Offsets that are part of an open transaction are waited for (KIP-447). Needs no membership.

        Args:
            partitions: which ones.
            timeout: seconds to try, retriable errors included; None: for ever.

        Raises:
            RebalanceInProgressError: a join is parked on the connection; poll first.
            BrokerError: the coordinator refuses.
            NetworkError: no answer in time.
            MemberClosedError: the member is closed.
        """
        return await self._member.committed_offsets(partitions, timeout)

    async def describe_group(self, timeout: float | None = 30.0) -> GroupDescription:
        """Return the group's state and members, as its coordinator tells (DescribeGroups).

        Args:
            timeout: seconds to try, retriable errors included; None: for ever.

        Raises:
            RebalanceInProgressError: a join is parked on the connection; poll first.
            GroupAuthorizationError: the principal may not describe the group.
            BrokerError: the coordinator refuses for another reason.
            NetworkError: no answer in time.
            MemberClosedError: the member is closed.
        """
        return await self._member.describe_group(timeout)

    def metrics(self) -> dict[str, float]:
        """Return Kafka's coordinator metrics under Kafka's names. A plain call, as `snapshot` and `events`."""
        return self._member.metrics()

    async def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Leave the group (or not, see `operation`), and end the heartbeat. Harmless when repeated.

        Args:
            timeout: seconds to wait at most for the coordinator's answer; the member is closed in any case.
            operation: whether to leave (KIP-1092).
        """
        await self._member.close(timeout, operation)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
