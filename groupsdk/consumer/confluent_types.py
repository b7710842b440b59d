"""Convert confluent-kafka's partitions, records and offsets to this library's types and back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from confluent_kafka import Message, TopicPartition as NativePartition
from confluent_kafka.admin import ClusterMetadata as ClusterMetadata  # type: ignore[attr-defined]  # public

from groupsdk.assignment import TopicPartition
from groupsdk.types import OffsetAndMetadata


class PartitionLike(Protocol):
    """One partition: confluent-kafka's `TopicPartition` or ours."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...


def plain(partitions: Iterable[PartitionLike]) -> list[TopicPartition]:
    """Return partitions as this library's hashable `TopicPartition`."""
    return [TopicPartition(each.topic, each.partition) for each in partitions]


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
    found = {}
    for named in offsets or ():
        # the keys of a mapping are partitions as well, whose offsets are not the ones that were meant
        if isinstance(given[1], Mapping) or not hasattr(named, "offset"):
            raise TypeError(
                f"offsets must be a list of confluent_kafka.TopicPartition(topic, partition, offset); it has {named!r}"
            )
        if named.offset < 0:
            raise ValueError(
                f"{named.topic}-{named.partition}: {named.offset} is not an offset to commit"
            )
        found[TopicPartition(named.topic, named.partition)] = OffsetAndMetadata(
            named.offset, _epoch(named.leader_epoch), named.metadata or ""
        )
    return found


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
