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
    """Show one member of a classic group; timeouts are milliseconds."""

    member_id: str = ""
    group_instance_id: Annotated[str | None, since(3), nullable(3), IGNORABLE] = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: Annotated[Int32, since(1), IGNORABLE] = -1
    """-1: the same as `session_timeout`, as in version 0."""
    session_timeout: Int32 = 0
    subscription: bytes = b""
    """The member's metadata for the protocol that was chosen."""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class GroupMetadataValue(CoordinatorValue):
    """A classic group, as it was when its leader's assignment arrived, or when it became empty."""

    api: ClassVar[Any] = RecordVersions(4, first_flexible=4, written=3)

    protocol_type: str = ""
    generation: Int32 = 0
    protocol: Annotated[str | None, nullable()] = None
    leader: Annotated[str | None, nullable()] = None
    current_state_timestamp: Annotated[Int64, since(2), IGNORABLE] = -1
    """Milliseconds; since when the group is in its state."""
    members: tuple[MemberMetadata, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupMetadataKey(CoordinatorKey):
    """Name a classic group."""

    record_type: ClassVar[int] = 2
    value_class: ClassVar[type[CoordinatorValue]] = GroupMetadataValue

    group: str = ""
