"""Read records through confluent-kafka: the partitions that are owned, and where reading them stands."""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final, cast

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaException,
    Message,
    TopicPartition as NativePartition,
)

from groupsdk.assignment import TopicPartition
from groupsdk.consumer.offsets import OffsetAndMetadata, name_of
from groupsdk.errors import NoOffsetError


_LOG = logging.getLogger(__name__)
_LEADERS_TIMEOUT_S: Final = 1.0
_ASKED_AT_ONCE: Final = 20
"""A round trip each, on the caller's thread: with more topics librdkafka's own second is no worse."""


class Reader:
    """The partitions of one consumer of confluent-kafka, which is a member of nothing.

    Owned partitions wait until it is known where to begin. Positions are not counted here, record by record:
    librdkafka knows them, and is asked when they are needed.

    Args:
        native: the consumer; nobody else assigns to it.
        reset: where to begin without a committed offset: "earliest", "latest" or "none".
    """

    def __init__(self, native: Consumer, reset: str) -> None:
        self.native = native
        self.waiting: set[TopicPartition] = set()
        """Owned, but not read yet."""
        self.reading: set[TopicPartition] = set()
        """Being read, paused ones as well."""
        self.paused: set[TopicPartition] = set()
        self.closed = False
        self.epoch = 0
        """Grows whenever something is taken or released: what was asked about it before is void."""
        self._reset = reset
        self._known_topics: set[str] = set()
        self._seeks: dict[TopicPartition, int] = {}
        self._starts: dict[TopicPartition, OffsetAndMetadata | None] = {}

    def take(self, partitions: Collection[TopicPartition]) -> None:
        """Own these; `begin` starts reading them."""
        self.epoch += 1
        self.waiting.update(partitions)

    def release(self, partitions: Collection[TopicPartition]) -> None:
        """Read these no more, and forget all about them."""
        self.epoch += 1
        gone = self.reading.intersection(partitions)
        if gone:
            natives = _natives(gone)
            # librdkafka keeps a pause beyond the assignment
            self.native.resume([each for each in natives if _plain(each) in self.paused])
            self.native.incremental_unassign(natives)
        self.reading -= gone
        self.waiting.difference_update(partitions)
        self.paused.difference_update(partitions)
        for partition in partitions:
            self._seeks.pop(partition, None)
            self._starts.pop(partition, None)

    @property
    def unplaced(self) -> set[TopicPartition]:
        """The waiting partitions whose committed offsets have to be looked up."""
        return self.waiting - self._seeks.keys()

    def begin(self, committed: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """Start reading the waiting partitions: where `seek` said, else at the committed offset.

        Args:
            committed: what is known of committed offsets; None where there is none. Partitions of which
                nothing is known go on waiting.

        Raises:
            NoOffsetError: there is none, and auto.offset.reset is "none"; those partitions go on waiting.
        """
        natives = []
        starts: dict[TopicPartition, OffsetAndMetadata | None] = {}
        without = []
        for partition in sorted(self.waiting & (committed.keys() | self._seeks.keys())):
            topic, number = partition
            found = committed.get(partition)
            if partition in self._seeks:
                offset = self._seeks[partition]
                natives.append(NativePartition(topic, number, offset))
                starts[partition] = OffsetAndMetadata(offset) if offset >= 0 else None
            elif found is not None:
                natives.append(
                    NativePartition(topic, number, found.offset, leader_epoch=found.leader_epoch)
                )
                starts[partition] = found
            elif self._reset == "none":
                without.append(partition)
            else:
                offset = OFFSET_BEGINNING if self._reset == "earliest" else OFFSET_END
                natives.append(NativePartition(topic, number, offset))
                starts[partition] = None
        if natives:
            self._learn_leaders({each.topic for each in natives})
            self.native.incremental_assign(natives)
            self.reading |= starts.keys()
            self.waiting -= starts.keys()
            self._starts |= starts
            for partition in starts:
                self._seeks.pop(partition, None)
            self._pause(self.paused & starts.keys())
        if without:
            raise NoOffsetError(
                f"no offset is committed for {', '.join(map(name_of, without[:10]))}, and auto.offset.reset is"
                " 'none': seek() says where to begin"
            )

    def _learn_leaders(self, topics: set[str]) -> None:
        # librdkafka looks once a second for the leaders of topics that are new to it, unless it was told them
        for topic in sorted(topics - self._known_topics)[:_ASKED_AT_ONCE]:
            try:
                self.native.list_topics(topic, _LEADERS_TIMEOUT_S)
            except KafkaException as error:
                _LOG.debug("no leaders of %s yet, librdkafka goes on looking: %s", topic, error)
                return
            self._known_topics.add(topic)

    def consume(self, count: int, timeout_s: float) -> list[Message]:
        """Return what librdkafka has, its own list."""
        return self.native.consume(count, timeout_s)

    def poll(self, timeout_s: float) -> Message | None:
        """Return one record that librdkafka has."""
        return self.native.poll(timeout_s)

    def positions(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the next record of each partition; None where that is not known before a first record."""
        asked = list(partitions)
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        being_read = [each for each in asked if each in self.reading]
        for native in self.native.position(_natives(being_read)) if being_read else ():
            partition = _plain(native)
            if native.offset >= 0:
                epoch = cast("int | None", native.leader_epoch)  # whatever the stub says
                found[partition] = OffsetAndMetadata(native.offset, -1 if epoch is None else epoch)
            else:
                found[partition] = self._starts.get(partition)
        for partition in asked:
            if partition not in found:
                offset = self._seeks.get(partition, -1)
                found[partition] = OffsetAndMetadata(offset) if offset >= 0 else None
        return found

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on reading at an offset.

        Raises:
            ValueError: the partition is not this consumer's.
        """
        if partition in self.waiting:
            self._seeks[partition] = offset
        elif partition in self.reading:
            self.native.seek(NativePartition(partition.topic, partition.partition, offset))
            self._starts[partition] = OffsetAndMetadata(offset) if offset >= 0 else None
        else:
            raise ValueError(f"{name_of(partition)} is not assigned to this consumer")

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch these no more until `resume`; the position stays."""
        chosen = self._assigned(partitions)
        self.paused |= chosen
        self._pause(chosen & self.reading)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch these again."""
        chosen = self._assigned(partitions)
        natives = _natives(chosen & self.paused & self.reading)
        self.paused -= chosen
        if natives:
            self.native.resume(natives)

    def _pause(self, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            self.native.pause(_natives(partitions))

    def _assigned(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        chosen = set(partitions)
        foreign = chosen - self.reading - self.waiting
        if foreign:
            raise ValueError(
                f"{', '.join(sorted(map(name_of, foreign)))}: not assigned to this consumer"
            )
        return chosen

    def close(self) -> None:
        """End the consumer."""
        self.closed = True
        self.native.close()


def _natives(partitions: Iterable[TopicPartition]) -> list[NativePartition]:
    return [NativePartition(topic, number) for topic, number in sorted(partitions)]


def _plain(native: NativePartition) -> TopicPartition:
    return TopicPartition(native.topic, native.partition)
