"""Read compacted topics to their end and keep reading them, through confluent-kafka (Kafka's `KafkaBasedLog`)."""

import logging
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its types miss its __all__
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from groupsdk.clock import Clock, Deadline, SystemClock
from groupsdk.connect.errors import StoreError


logger = logging.getLogger(__name__)

OnRecord = Callable[[str, int, bytes, bytes | None, int], None]
"""Topic, partition, key, value and offset of a record; on the reader's thread."""

START_TIMEOUT_MS: Final = 60_000
"""How long creating and first reading of the topics may take."""
_POLL_S: Final = 0.2
_BATCH: Final = 500
_CALL_S: Final = 15.0
_ATTEMPT_MS: Final = 5_000
_RETRY_S: Final = 0.1


class KafkaLog:
    """All records of some compacted topics, in order, from the first on.

    Args:
        settings: what librdkafka's clients are made with.
        topics: the topics, each with the partitions that it is made with where it is missing.
        replication_factor: how many copies then; -1: the brokers' default.
        on_record: told each record.
        idle: called on the reader's thread every now and then.
        clock: the time.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        topics: Mapping[str, int],
        replication_factor: int,
        on_record: OnRecord,
        idle: Callable[[], None],
        clock: Clock | None = None,
    ) -> None:
        self.partitions: dict[str, int] = {}
        """How many partitions each topic has."""
        self._settings = dict(settings)
        self._topics = dict(topics)
        self._replication_factor = replication_factor
        self._on_record = on_record
        self._idle = idle
        self._clock = clock or SystemClock()
        self._admin: AdminClient | None = None
        self._consumer: Consumer | None = None
        self._positions: dict[tuple[str, int], int] = {}
        self._moved = threading.Condition()
        self._error: Exception | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._read, name="groupsdk-store", daemon=True)

    def start(self) -> None:
        """Create what is missing and read all there is.

        Raises:
            StoreError: that failed, or did not end in time.
        """
        deadline = Deadline(self._clock, START_TIMEOUT_MS)
        try:
            self._admin = AdminClient(self._settings)
            self._create(self._admin, deadline)
            self._check(self._admin)
            self._consumer = Consumer(
                {
                    **self._settings,
                    # of no group that anything could be committed for
                    "group.id": f"groupsdk-store-{uuid.uuid4()}",
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "isolation.level": "read_committed",
                    "auto.offset.reset": "earliest",
                    "fetch.wait.max.ms": 100,
                }
            )
            self._consumer.assign(
                [
                    TopicPartition(topic, number, OFFSET_BEGINNING)
                    for topic, count in self.partitions.items()
                    for number in range(count)
                ]
            )
        except KafkaException as error:
            raise StoreError(f"the topics {', '.join(self._topics)}: {_text(error)}") from error
        self._thread.start()
        self.read_to_end(list(self._topics), deadline.remaining_ms(START_TIMEOUT_MS))

    @property
    def failed(self) -> bool:
        """Whether reading has ended by itself."""
        return self._error is not None

    def read_to_end(self, topics: Sequence[str], timeout_ms: int) -> None:
        """Return when all records have been handed on that are there now, as far as they are committed.

        Raises:
            StoreError: they were not read in time.
        """
        deadline = Deadline(self._clock, timeout_ms)
        self._await(self._ends(topics, deadline), deadline, timeout_ms)

    def read_to(self, topic: str, offset: int, timeout_ms: int) -> None:
        """Return when the record before this offset has been handed on.

        Kafka answers that a transaction is committed before its records can be read.

        Raises:
            StoreError: it was not read in time.
        """
        self._await({(topic, 0): offset}, Deadline(self._clock, timeout_ms), timeout_ms)

    def _await(
        self, ends: Mapping[tuple[str, int], int], deadline: Deadline, timeout_ms: int
    ) -> None:
        def there() -> bool:
            return self._error is not None or all(
                self._positions.get(each, 0) >= end for each, end in ends.items()
            )

        with self._moved:
            reached = self._moved.wait_for(there, deadline.remaining_ms(timeout_ms) / 1000)
            behind = {
                f"{topic}-{number}": (self._positions.get((topic, number), 0), end)
                for (topic, number), end in ends.items()
                if self._positions.get((topic, number), 0) < end
            }
        if self._error is not None:
            raise StoreError(f"reading has ended: {self._error}") from self._error
        if not reached:
            raise StoreError(f"not read within {timeout_ms} ms (read, end): {behind}")

    def close(self) -> None:
        """End reading."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(5)

    # Details.

    def _ends(self, topics: Sequence[str], deadline: Deadline) -> dict[tuple[str, int], int]:
        """Ask where the partitions end; again where a broker does not know of them, or is not there."""
        assert self._admin is not None
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # untyped there
        asked = {
            TopicPartition(topic, number): latest
            for topic in topics
            for number in range(self.partitions[topic])
        }
        while True:
            # one attempt at least, however late it is
            timeout_s = max(1.0, deadline.remaining_ms(_ATTEMPT_MS) / 1000)
            try:
                answers = self._admin.list_offsets(
                    asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=timeout_s
                )
                ends = {
                    (each.topic, each.partition): int(answer.result(timeout_s + 1).offset)
                    for each, answer in answers.items()
                }
                unknown = [f"{topic}-{n}" for (topic, n), end in ends.items() if end < 0]
                if not unknown:
                    return ends
                # librdkafka's answer, without an error, where a broker went away in between
                why = f"no answer for {', '.join(unknown)}"
            except (KafkaException, TimeoutError) as error:
                why = _text(error)
            if deadline.expired:
                raise StoreError(f"the ends of {', '.join(topics)}: {why}")
            logger.debug("the ends of %s: %s", ", ".join(topics), why)
            self._closing.wait(_RETRY_S)

    def _create(self, admin: AdminClient, deadline: Deadline) -> None:
        """Create topics that are missing, and learn how many partitions each has."""
        wanted = [
            NewTopic(
                topic,
                count,
                replication_factor=self._replication_factor,
                config={"cleanup.policy": "compact"},
            )
            for topic, count in self._topics.items()
        ]
        present = admin.list_topics(timeout=_CALL_S).topics
        missing = [each for each in wanted if each.topic not in present]
        if missing:
            for topic, future in admin.create_topics(missing, request_timeout=_CALL_S).items():
                try:
                    future.result(_CALL_S)
                    logger.info("created topic %s", topic)
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                        raise
        while self._topics.keys() - self.partitions.keys():
            for topic, about in admin.list_topics(timeout=_CALL_S).topics.items():
                if topic in self._topics and about.error is None and about.partitions:
                    self.partitions[topic] = len(about.partitions)
            if deadline.expired:
                raise StoreError(f"the topics {', '.join(self._topics)} do not come into being")
            if self._topics.keys() - self.partitions.keys():
                self._closing.wait(0.05)

    def _check(self, admin: AdminClient) -> None:
        """Refuse topics that forget."""
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in self._topics]
        for resource, future in admin.describe_configs(resources).items():
            try:
                policy = future.result(_CALL_S)["cleanup.policy"].value
            except KafkaException as error:
                logger.info("topic %s: settings cannot be read: %s", resource.name, _text(error))
                continue
            if policy != "compact":
                raise StoreError(
                    f"topic {resource.name} has cleanup.policy={policy}, which would delete what is kept in"
                    " it: set it to compact"
                )

    def _read(self) -> None:
        assert self._consumer is not None
        try:
            while not self._closing.is_set():
                # waiting for a batch would wait for all of it
                messages = self._consumer.consume(1, _POLL_S)
                if messages:
                    messages += self._consumer.consume(_BATCH, 0)
                for message in messages:
                    self._take(message)
                if messages:
                    with self._moved:
                        self._moved.notify_all()
                self._idle()
        except Exception as error:
            logger.exception("reading %s ends", ", ".join(self._topics))
            with self._moved:
                self._error = error
                self._moved.notify_all()
        finally:
            self._consumer.close()

    def _take(self, message: Message) -> None:
        topic, number, offset = message.topic(), message.partition(), message.offset()
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  # confluent-kafka's name for it
                logger.info("reading %s: %s", topic or "the topics", error)
                return
            assert topic is not None
            assert number is not None
            assert offset is not None
            self._positions[topic, number] = offset
            return
        assert topic is not None
        assert number is not None
        assert offset is not None
        key, value = message.key(), message.value()
        if key is not None:
            self._on_record(
                topic, number, _bytes(key), None if value is None else _bytes(value), offset
            )
        self._positions[topic, number] = offset + 1


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _text(error: Exception) -> str:
    return error.args[0].str() if isinstance(error, KafkaException) else str(error)
