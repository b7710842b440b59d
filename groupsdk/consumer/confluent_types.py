"""Convert confluent-kafka's partitions, records and offsets to this library's types and back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from confluent_kafka import Message, TopicPartition as NativePartition
from confluent_kafka.admin import ClusterMetadata as ClusterMetadata  # type: ignore[attr-defined]  # public

from groupsdk.assignment import TopicPartition
from groupsdk.types import OffsetAndMetadata


T = TypeVar("T")

_PARTITIONS: Final = "partitions must be a list of TopicPartition(topic, partition)"
_OFFSETS: Final = (
    "offsets must be a list of confluent_kafka.TopicPartition(topic, partition, offset)"
)
_TIMES: Final = (
    "partitions must be a list of confluent_kafka.TopicPartition(topic, partition, time_ms)"
)


class PartitionLike(Protocol):
    """One partition: confluent-kafka's `TopicPartition` or ours."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...


def plain(partitions: Iterable[PartitionLike]) -> list[TopicPartition]:
    """Return partitions as this library's hashable `TopicPartition`.

    Raises TypeError if the argument is not a list of partitions, such as the names of topics.
    """
    given = _listed(partitions, _PARTITIONS)
    for each in given:
        if not _is_partition(each):
            raise TypeError(f"{_PARTITIONS}; it has {each!r}")
    return [TopicPartition(each.topic, each.partition) for each in given]


def plain_one(partition: PartitionLike) -> TopicPartition:
    """Return a partition likewise. Raises TypeError if it is something else, such as the name of a topic."""
    if not _is_partition(partition):
        raise TypeError(f"partition must be a TopicPartition(topic, partition), not {partition!r}")
    return TopicPartition(partition.topic, partition.partition)


def check_with_offset(partition: object) -> None:
    """Raise TypeError unless a partition carries an offset."""
    if not _has_offset(partition):
        raise TypeError(
            "partition must be a confluent_kafka.TopicPartition(topic, partition, offset), not"
            f" {partition!r}"
        )


def with_times(partitions: Iterable[NativePartition]) -> list[NativePartition]:
    """Return partitions that carry a time as their offset. Raises TypeError if they are something else."""
    given = _listed(partitions, _TIMES)
    for each in given:
        if not _has_offset(each):
            raise TypeError(f"{_TIMES}; it has {each!r}")
    return given


def _listed(given: Iterable[T], wanted: str) -> list[T]:
    if not hasattr(given, "topic"):  # one partition of ours is a tuple
        try:
            return list(given)
        except TypeError:
            pass
    raise TypeError(f"{wanted}, not {given!r}")


def _has_offset(given: object) -> bool:
    return _is_partition(given) and isinstance(getattr(given, "offset", None), int)


def _is_partition(given: object) -> bool:
    topic, number = getattr(given, "topic", None), getattr(given, "partition", None)
    return isinstance(topic, str) and isinstance(number, int)


def offsets_of(
    message: Message | None, offsets: Sequence[NativePartition] | None
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets to commit: the one after a record, or those given.

    Raises ValueError if both are given or neither is, the message is an error, or an offset is negative. Raises TypeError if either is something else.
    """
    if (message is None) == (offsets is None):
        raise ValueError("give a message or offsets")
    # callers without a type checker pass offsets as the first argument, or a mapping as other clients take it
    given: tuple[object, object] = (message, offsets)
    if message is not None and not callable(getattr(given[0], "topic", None)):
        raise TypeError(f"message must be a record, not {given[0]!r}; offsets go to `offsets=`")
    if message is not None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if message.error() is not None or topic is None or partition is None or offset is None:
            raise ValueError(f"the message is an error, not a record: {message.error()}")
        after = OffsetAndMetadata(offset + 1, _epoch(message.leader_epoch()))
        return {TopicPartition(topic, partition): after}
    offsets_by_partition = {}
    for named in () if offsets is None else _listed(offsets, _OFFSETS):
        # the keys of a mapping are partitions as well, whose offsets are not the ones that were meant
        if isinstance(given[1], Mapping) or not _has_offset(named):
            raise TypeError(f"{_OFFSETS}; it has {named!r}")
        if named.offset < 0:
            raise ValueError(
                f"{named.topic}-{named.partition}: {named.offset} is not an offset to commit"
            )
        offsets_by_partition[TopicPartition(named.topic, named.partition)] = OffsetAndMetadata(
            named.offset, _epoch(named.leader_epoch), named.metadata or ""
        )
    return offsets_by_partition


def first_offsets(messages: Iterable[Message]) -> dict[TopicPartition, int]:
    """Return the least offset of each partition among some records; errors of librdkafka are passed over."""
    first: dict[TopicPartition, int] = {}
    for message in messages:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if message.error() is not None or topic is None or partition is None or offset is None:
            continue
        where = TopicPartition(topic, partition)
        first[where] = min(offset, first.get(where, offset))
    return first


def native(partition: TopicPartition, found: OffsetAndMetadata | None) -> NativePartition:
    """Return a partition with its offset as confluent-kafka's `TopicPartition`; None: OFFSET_INVALID."""
    if found is None:
        return NativePartition(*partition)
    if found.metadata:
        return NativePartition(
            *partition, found.offset, found.metadata, leader_epoch=found.leader_epoch
        )
    return NativePartition(*partition, found.offset, leader_epoch=found.leader_epoch)


def _epoch(epoch: int | None) -> int:
    return -1 if epoch is None else epoch
