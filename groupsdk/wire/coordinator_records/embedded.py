"""Declare the consumer messages in the records of classic groups, field by field as encoded.

`groupsdk.wire.consumer_protocol` is for those who act on these messages; this is for tools that show them.
(Kafka: ConsumerProtocolSubscription and ConsumerProtocolAssignment.)
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from groupsdk.errors import DecodeError
from groupsdk.wire.compiler import decoder
from groupsdk.wire.coordinator_records.declaration import (
    CoordinatorValue,
    RecordVersions,
    read_prefix,
)
from groupsdk.wire.schema import IGNORABLE, Int32, Struct, nullable, since


_VERSIONS = RecordVersions(3, first_flexible=None, written=3)


@dataclass(frozen=True, slots=True)
class TopicPartition(Struct):
    """Name partitions of one topic."""

    topic: str = ""
    partitions: tuple[Int32, ...] = ()


@dataclass(frozen=True, slots=True)
class Subscription(CoordinatorValue):
    """What a consumer wants, and what it owns."""

    api: ClassVar[Any] = _VERSIONS

    topics: tuple[str, ...] = ()
    user_data: Annotated[bytes | None, nullable()] = None
    owned_partitions: Annotated[tuple[TopicPartition, ...], since(1), IGNORABLE] = ()
    generation_id: Annotated[Int32, since(2), IGNORABLE] = -1
    rack_id: Annotated[str | None, since(3), nullable(3), IGNORABLE] = None


@dataclass(frozen=True, slots=True)
class Assignment(CoordinatorValue):
    """What a consumer is assigned."""

    api: ClassVar[Any] = _VERSIONS

    assigned_partitions: tuple[TopicPartition, ...] = ()
    user_data: Annotated[bytes | None, nullable()] = None


def read_embedded(
    declared: type[CoordinatorValue], data: bytes
) -> tuple[CoordinatorValue, int] | None:
    """Decode a consumer's message; gives it with its version, None where it cannot be read.

    Members may put anything there, so that a tool shows it as bytes where it is not what it should be.
    """
    try:
        version = read_prefix(data, "message")
        if version not in declared.api:
            return None
        found: CoordinatorValue = decoder(declared, version)(data, 2)
    except DecodeError:
        return None
    return found, version
