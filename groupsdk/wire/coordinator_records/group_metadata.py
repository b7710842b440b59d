"""Declare classic groups in `__consumer_offsets`."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from groupsdk.wire.coordinator_records.declaration import (
    CoordinatorKey,
    CoordinatorValue,
    RecordVersions,
)
from groupsdk.wire.schema import IGNORABLE, Int32, Int64, Struct, nullable, since


@dataclass(frozen=True, slots=True)
class MemberMetadata(Struct):
    """One member of a classic group. Timeouts are in milliseconds.

    `assignment` has the bytes that the leader assigned to it, in the format of the group's protocol type.
    """

    member_id: str = ""
    group_instance_id: Annotated[str | None, since(3), nullable(3), IGNORABLE] = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: Annotated[Int32, since(1), IGNORABLE] = -1
    """-1: the same as `session_timeout`, as in version 0."""
    session_timeout: Int32 = 0
    subscription: bytes = b""
    """The member's metadata for the chosen protocol."""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class GroupMetadataValue(CoordinatorValue):
    """A classic group at the time its leader's assignment arrived, or it became empty.

    `protocol` is the chosen assignor and `leader` a member id; both are None in an empty group.
    """

    api: ClassVar[Any] = RecordVersions(4, first_flexible=4, written=3)

    protocol_type: str = ""
    generation: Int32 = 0
    protocol: Annotated[str | None, nullable()] = None
    leader: Annotated[str | None, nullable()] = None
    current_state_timestamp: Annotated[Int64, since(2), IGNORABLE] = -1
    """The time at which the group entered its state, in milliseconds since 1970; -1 if unknown."""
    members: tuple[MemberMetadata, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupMetadataKey(CoordinatorKey):
    """The key of a classic group."""

    record_type: ClassVar[int] = 2
    value_class: ClassVar[type[CoordinatorValue]] = GroupMetadataValue

    group: str = ""
