"""Java's API, as a class to subclass: `AbstractCoordinator`."""

import weakref
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, Unpack

from typing_extensions import override

from groupsdk.assignment import TopicPartition
from groupsdk.clock import Clock
from groupsdk.config import MemberConfig
from groupsdk.coordinator import GroupCallbacks, Protocols
from groupsdk.drivers.engine_handle import EngineHandle
from groupsdk.drivers.interface import (
    NO_PROTOCOL_TYPE,
    NOT_CREATED,
    CoordinatorInterface,
    check_protocol_type,
    described,
)
from groupsdk.drivers.threads.member import GroupMember
from groupsdk.types import (
    GroupDescription,
    GroupMembers,
    GroupMembershipOperation,
    OffsetAndMetadata,
)


if TYPE_CHECKING:
    from groupsdk.settings import MemberSettings


class AbstractCoordinator(GroupCallbacks, CoordinatorInterface):
    """A member of a group of your own kind: subclass it and fill in four methods.

    It mirrors Kafka's `AbstractCoordinator`. Yours: `protocol_type`, `metadata`, `perform_assignment` and
    `on_join_complete`; if you need them also `on_join_prepare`, `on_leave_prepare` and
    `on_assignment_skipped`. They run inside the calls of the driving thread (`ensure_active_group`, `poll`,
    `leave_group`, `close`), never on the heartbeat's, and under no lock.

    Threads: one thread at a time drives the member. `generation`, `generation_if_stable`, `member_id`,
    `snapshot`, `metrics`, `events`, `request_rejoin` and `wakeup` may be called from any.

    One that is dropped without `close` gives a `ResourceWarning`, and leaves its group then.

    Args:
        settings: Kafka's keys, e.g. ``{"bootstrap.servers": "...", "group.id": "..."}``, or a `MemberConfig`.
        clock: the time; for tests.
        keywords: the same as keywords, e.g. ``group_id="..."``.

    Raises:
        ConfigError: a setting is unknown, missing or wrong.
    """

    _member: GroupMember = NOT_CREATED
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
        self._member = GroupMember(weakref.proxy(self), config, clock)
        self._engine_handle = self._member._engine_handle  # noqa: SLF001 - of the one member that both are

    @override
    def __repr__(self) -> str:
        return described(self, self._member.snapshot() if "_member" in self.__dict__ else None)

    # Yours to fill in.

    @override
    @abstractmethod
    def metadata(self) -> Protocols: ...

    @override
    @abstractmethod
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Mapping[str, bytes]: ...

    @override
    @abstractmethod
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None: ...

    @override
    def on_join_prepare(self, generation: int, member_id: str) -> None: ...

    @override
    def on_assignment_skipped(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> None: ...

    @override
    def on_leave_prepare(self) -> None: ...

    # The library's.

    @override
    def ensure_active_group(self, timeout: float | None = None) -> bool:
        return self._member.ensure_active_group(timeout)

    @override
    def poll(self, timeout: float = 0.0) -> bool:
        return self._member.poll(timeout)

    @override
    def leave_group(self, reason: str) -> None:
        self._member.leave_group(reason)

    @override
    def commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float | None = 30.0
    ) -> None:
        self._member.commit_offsets(offsets, timeout)

    @override
    def committed_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = 30.0
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return self._member.committed_offsets(partitions, timeout)

    @override
    def describe_group(self, timeout: float | None = 30.0) -> GroupDescription:
        return self._member.describe_group(timeout)

    @override
    def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        self._member.close(timeout, operation)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
