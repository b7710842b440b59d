"""Java's API for asyncio, as a class to subclass: `AsyncAbstractCoordinator`."""

import weakref
from abc import abstractmethod
from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, Unpack

from typing_extensions import override

from groupsdk.assignment import TopicPartition
from groupsdk.clock import Clock
from groupsdk.config import MemberConfig
from groupsdk.coordinator import AsyncGroupCallbacks, Protocols
from groupsdk.drivers.aio.member import AsyncGroupMember
from groupsdk.drivers.engine_handle import EngineHandle
from groupsdk.drivers.interface import (
    NO_PROTOCOL_TYPE,
    NOT_CREATED,
    CoordinatorInterface,
    check_protocol_type,
    described,
)
from groupsdk.types import (
    GroupDescription,
    GroupMembers,
    GroupMembershipOperation,
    OffsetAndMetadata,
)


if TYPE_CHECKING:
    from groupsdk.settings import MemberSettings


class AsyncAbstractCoordinator(AsyncGroupCallbacks, CoordinatorInterface):
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

    _member: AsyncGroupMember = NOT_CREATED
    _engine_handle: EngineHandle = NOT_CREATED
    protocol_type: str = NO_PROTOCOL_TYPE

    def __init__(
        self,
        settings: Mapping[str, Any] | MemberConfig | None = None,
        /,
        *,
        clock: Clock | None = None,
        **keywords: "Unpack[MemberSettings]",
    ) -> None:
        check_protocol_type(self)
        config = MemberConfig.given(settings, keywords)
        # weakly: a reference cycle ends only when the garbage collector finds it, and the group would wait
        # for a member that was dropped
        self._member = AsyncGroupMember(weakref.proxy(self), config, clock)
        self._engine_handle = self._member._engine_handle  # noqa: SLF001 - of the one member that both are

    @override
    def __repr__(self) -> str:
        return described(self, self._member.snapshot() if "_member" in self.__dict__ else None)

    # Yours to fill in.

    @override
    @abstractmethod
    def metadata(self) -> Protocols | Awaitable[Protocols]: ...

    @override
    @abstractmethod
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Mapping[str, bytes] | Awaitable[Mapping[str, bytes]]: ...

    @override
    @abstractmethod
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> Awaitable[None] | None: ...

    @override
    def on_join_prepare(self, generation: int, member_id: str) -> Awaitable[None] | None: ...

    @override
    def on_assignment_skipped(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Awaitable[None] | None: ...

    @override
    def on_leave_prepare(self) -> Awaitable[None] | None: ...

    # The library's.

    @override
    async def ensure_active_group(self, timeout: float | None = None) -> bool:
        return await self._member.ensure_active_group(timeout)

    @override
    async def poll(self, timeout: float = 0.0) -> bool:
        return await self._member.poll(timeout)

    @override
    async def leave_group(self, reason: str) -> None:
        await self._member.leave_group(reason)

    @override
    async def commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float | None = 30.0
    ) -> None:
        await self._member.commit_offsets(offsets, timeout)

    @override
    async def committed_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = 30.0
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return await self._member.committed_offsets(partitions, timeout)

    @override
    async def describe_group(self, timeout: float | None = 30.0) -> GroupDescription:
        return await self._member.describe_group(timeout)

    @override
    async def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        await self._member.close(timeout, operation)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
