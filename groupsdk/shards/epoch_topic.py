"""Record the incarnations of groups in a compacted topic: `TopicEpochStore`."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from groupsdk.clock import Deadline, SystemClock
from groupsdk.settings.librdkafka import client_settings
from groupsdk.shards.callbacks import ClockEpochStore, EpochStore, EpochStoreError
from groupsdk.shards.config import ShardConfig


if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer

logger = logging.getLogger(__name__)

_TIMEOUT_MS: Final = 15_000
_SLICE_MS: Final = 200
_VERSION: Final = 0
_COMPACTION_LAG_MS: Final = 7 * 24 * 3_600_000
_TOPIC: Final = {
    "cleanup.policy": "compact",
    # so that numbers which two writers recorded out of order are all there to be compared
    "min.compaction.lag.ms": str(_COMPACTION_LAG_MS),
}


def open_store(config: ShardConfig) -> EpochStore:
    """Return the store that `epoch.topic` names."""
    if config.epoch_topic is None:
        return ClockEpochStore()
    return TopicEpochStore(config, config.epoch_topic)


class _ForbiddenError(Exception):
    """The rights to use the topic are missing."""


class TopicEpochStore:
    """An `EpochStore` in a topic: one partition, compacted; key: the group, value: version and number, nine bytes.

    The topic is created where it is missing. A number is returned once all in-sync replicas have it, and once it is sure
    that no other writer has recorded the same or a greater one before. Without the rights to create, read or write the
    topic, a warning is logged once, and the clock decides.
    """

    def __init__(self, config: ShardConfig, topic: str) -> None:
        self._config = config
        self._topic = topic
        self._warned = False

    def advance(self, group_id: str, at_least: int) -> int:
        """Return and record the next number; see `EpochStore`.

        Raises EpochStoreError if the topic cannot be created, read or written at present.
        """
        from confluent_kafka import KafkaException

        try:
            return _Session(
                client_settings(self._config.member, logger), self._topic, group_id
            ).advance(at_least)
        except _ForbiddenError as error:
            if not self._warned:
                self._warned = True
                logger.warning(
                    "group=%s: %s: epochs rise only while clocks do not go back; allow the topic, or set"
                    " epoch.topic to None",
                    group_id,
                    error,
                )
            return at_least
        except (KafkaException, BufferError) as error:
            raise EpochStoreError(
                f"topic {self._topic!r}, in which epochs are recorded, cannot be used at present: {error}"
            ) from error


class _Session:
    """One use of the topic, with clients of its own: it is needed once in the life of a group, or little more."""

    def __init__(self, settings: Mapping[str, Any], topic: str, group_id: str) -> None:
        self._settings = dict(settings)
        self._topic = topic
        self._group_id = group_id
        self._deadline = Deadline(SystemClock(), _TIMEOUT_MS)
        self._known = -1
        self._next_offset = 0
        self._error: KafkaError | None = None

    def advance(self, at_least: int) -> int:
        """Record and return the next number."""
        from confluent_kafka import Consumer

        reader = Consumer(
            {
                **self._settings,
                "group.id": f"{self._topic}-reader",  # librdkafka wants one; nothing joins or commits
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 10,  # the end of the topic is told when this is over
                "topic.metadata.refresh.fast.interval.ms": 50,
                "allow.auto.create.topics": False,
                "error_cb": self._on_error,
            }
        )
        try:
            self._ensure_topic(reader)
            return self._advance(reader, at_least)
        finally:
            reader.close()

    def _advance(self, reader: "Consumer", at_least: int) -> int:
        from confluent_kafka import Producer

        writer = Producer(
            {
                **self._settings,
                "acks": "all",
                "linger.ms": 0,
                "delivery.timeout.ms": _TIMEOUT_MS,
            }
        )
        self._read_to(reader, None)
        while True:
            number = max(at_least, self._known + 1)
            offset = self._write(writer, number)
            self._read_to(reader, offset)
            if self._known < number:
                return number

    def _ensure_topic(self, reader: "Consumer") -> None:
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its types miss its __all__
            AdminClient,
            NewTopic,
        )

        found = reader.list_topics(self._topic, timeout=self._left_s()).topics[self._topic]
        if found.error is None:
            return
        self._check(found.error)
        topic = NewTopic(self._topic, num_partitions=1, replication_factor=-1, config=_TOPIC)
        admin = AdminClient(self._settings)
        future = admin.create_topics([topic], operation_timeout=self._left_s())[self._topic]
        try:
            future.result(self._left_s())
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                self._check(error.args[0])
                raise

    def _read_to(self, reader: "Consumer", offset: int | None) -> None:
        """Read up to before an offset; None: to the end."""
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        reader.assign([TopicPartition(self._topic, 0, self._next_offset)])
        while offset is None or self._next_offset < offset:
            message = reader.poll(min(_SLICE_MS / 1000, self._left_s()))
            if message is None:
                self._left_s()
                continue
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # confluent-kafka's name for it
                    if offset is None:
                        return
                    continue
                self._check(error)
                if error.code() in _PASSING:
                    continue
                raise KafkaException(error)
            at = message.offset()
            assert at is not None
            if offset is not None and at >= offset:
                return
            self._next_offset = at + 1
            if message.key() == self._group_id.encode():
                self._known = max(self._known, _decoded(message.value()))

    def _write(self, writer: "Producer", number: int) -> int:
        """Write the number, and return its offset."""
        from confluent_kafka import KafkaException

        told: list[Any] = []
        writer.produce(
            self._topic,
            key=self._group_id.encode(),
            value=bytes((_VERSION,)) + number.to_bytes(8),
            partition=0,
            on_delivery=lambda error, message: told.append(error or message.offset()),
        )
        writer.flush(self._left_s())
        if not told or not isinstance(told[0], int):
            if told:
                self._check(told[0])
                raise KafkaException(told[0])
            raise EpochStoreError(f"topic {self._topic!r} has not taken an epoch in time")
        return told[0]

    def _check(self, error: "KafkaError") -> None:
        """Raise what is not a failure that passes, but missing rights."""
        if error.code() in _FORBIDDEN:
            raise _ForbiddenError(f"topic {self._topic!r} is not allowed ({error.str()})")

    def _on_error(self, error: "KafkaError") -> None:
        self._error = error

    def _left_s(self) -> float:
        left_ms = self._deadline.remaining_ms(_TIMEOUT_MS)
        if left_ms <= 0:
            why = "" if self._error is None else f" ({self._error.str()})"
            raise EpochStoreError(
                f"topic {self._topic!r}, in which epochs are recorded, did not answer within {_TIMEOUT_MS} ms{why}"
            )
        return left_ms / 1000


_FORBIDDEN: Final = (29, 31, 44)  # TOPIC_ and CLUSTER_AUTHORIZATION_FAILED, POLICY_VIOLATION
_PASSING: Final = (3, 5, 6)  # UNKNOWN_TOPIC_OR_PARTITION just after its creation, and no leader yet


def _decoded(value: bytes | None) -> int:
    """Return the number in a record; -1 for what is none."""
    if value is None or len(value) < 9:
        return -1
    return int.from_bytes(value[1:9])
