"""Read compacted topics to their end and keep reading them, through confluent-kafka (Kafka's `KafkaBasedLog`)."""

import contextlib
import heapq
import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, Final, cast

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
from groupsdk.connect.errors import StoreError, StoreUnreachableError
from groupsdk.settings.backoff import ExponentialBackoff
from groupsdk.settings.librdkafka import BrokerWatch


logger = logging.getLogger(__name__)

OnRecord = Callable[[str, int, bytes, bytes | None, int], None]
"""Topic, partition, key, value and offset of a record; on the reader's thread."""

WhenRead = Callable[[str | None], None]
"""Told None when a record has been read, or why it cannot be."""
START_TIMEOUT_MS: Final = 60_000
"""How long creating and first reading of the topics may take."""
_POLL_S: Final = 0.2
_BATCH: Final = 500
_CALL_S: Final = 15.0
_ATTEMPT_MS: Final = 5_000
_RETRY_S: Final = 0.1
_GIVE_UP_MS: Final = 4_000
"""How long `when_read` waits for a topic that cannot be read; less than tasks have to end."""
_UNREACHABLE: Final = (
    KafkaError._TRANSPORT,  # noqa: SLF001  # confluent-kafka's names for them
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
)
_BACKOFF: Final = ExponentialBackoff(100, 5_000)


class KafkaLog:
    """All records of some compacted topics, in order, from the beginning.

    Read errors of librdkafka are logged, and reading resumes at the same offset after a backoff. `on_record` and, after each batch
    and while there is nothing to read, `idle` are called on the reader's thread.

    Args:
        topics: the topics, each with its number of partitions if it has to be created.
        replication_factors: the replication factor of each then; -1, or missing: the brokers' default.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        topics: Mapping[str, int],
        replication_factors: Mapping[str, int],
        on_record: OnRecord,
        idle: Callable[[], None],
        clock: Clock | None = None,
    ) -> None:
        self.partitions: dict[str, int] = {}
        self.cluster_id = ""
        """The id of the cluster, from the start on."""
        self._settings = dict(settings)
        self._topics = dict(topics)
        self._replication_factors = dict(replication_factors)
        self._on_record = on_record
        self._idle = idle
        self._clock = clock or SystemClock()
        self._admin: AdminClient | None = None
        self._admin_watch = BrokerWatch()
        self._ensured: set[str] = set()
        self._consumer: Consumer | None = None
        self._consumer_watch = BrokerWatch()
        self._positions: dict[tuple[str, int], int] = {}
        self._moved = threading.Condition()
        self._waiting: dict[tuple[str, int], list[tuple[int, int, int, WhenRead]]] = {}
        """What is called when a partition is read past an offset: heaps of offset, number, since when, function."""
        self._waiting_count = 0
        self._troubles: dict[str, tuple[int, str]] = {}
        """Since when a topic cannot be read, and why."""
        self._unheard: set[tuple[str, int]] = set()
        """Of which partitions nothing was heard since then."""
        self._failures = 0
        self._anew_at_ms: int | None = None
        self._random = Random()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._read, name="groupsdk-store", daemon=True)

    def start(self) -> None:
        """Create missing topics and read all existing records.

        Raises StoreUnreachableError if no broker could be reached. Raises StoreError if that failed, or did not end in time.
        """
        deadline = Deadline(self._clock, START_TIMEOUT_MS)
        try:
            self._admin = self._connected()
            self._create(self._admin, deadline)
            self._check(self._admin)
            self._consumer = self._opened()
        except KafkaException as error:
            kind = StoreUnreachableError if error.args[0].code() in _UNREACHABLE else StoreError
            raise kind(
                f"the topics {', '.join(self._topics)} on {self._settings['bootstrap.servers']}: {_text(error)}"
            ) from error
        self._thread.start()
        self.read_to_end(list(self._topics), deadline.remaining_ms(START_TIMEOUT_MS))

    @property
    def failed(self) -> bool:
        return bool(self._troubles)

    def failing_ms(self, topic: str) -> int:
        """Return how long reading a topic has been failing, in milliseconds; 0 if it is not."""
        since_ms, _ = self._troubles.get(topic, (None, ""))
        return 0 if since_ms is None else max(1, self._clock.now_ms() - since_ms)

    def read_to_end(self, topics: Sequence[str], timeout_ms: int) -> None:
        """Wait until `on_record` got all records that can be read by now. Raises StoreError if that takes too long.

        The records of a transaction become readable a moment after Kafka has answered that it is committed; see `read_to`.
        """
        deadline = Deadline(self._clock, timeout_ms)
        ends = self._ends(topics, deadline)
        self._await(ends, deadline.remaining_ms(timeout_ms), timeout_ms)

    def read_to(self, ends: Mapping[tuple[str, int], int], timeout_ms: int) -> None:
        """Wait until `on_record` got all records before these offsets. Raises StoreError if that takes too long.

        Kafka answers that a transaction is committed before its records can be read.
        """
        self._await(ends, timeout_ms, timeout_ms)

    def when_read(self, topic: str, number: int, offset: int, act: WhenRead) -> None:
        """Call `act` when the record at this offset has been handed on; at once where it has been.

        It is called on this thread or on the reader's; it must neither wait nor raise.
        """
        with self._moved:
            if self._positions.get((topic, number), 0) <= offset:
                self._waiting_count += 1
                entry = offset, self._waiting_count, self._clock.now_ms(), act
                heapq.heappush(self._waiting.setdefault((topic, number), []), entry)
                return
        act(None)

    def _await(self, ends: Mapping[tuple[str, int], int], left_ms: int, timeout_ms: int) -> None:
        def there() -> bool:
            return all(self._positions.get(each, 0) >= end for each, end in ends.items())

        with self._moved:
            reached = self._moved.wait_for(there, left_ms / 1000)
            behind = {
                f"{topic}-{number}": (self._positions.get((topic, number), 0), end)
                for (topic, number), end in ends.items()
                if self._positions.get((topic, number), 0) < end
            }
            whys = sorted({why for _, why in self._troubles.values()})
        if not reached:
            why = f"; {', '.join(whys)}" if whys else ""
            raise StoreError(f"not read within {timeout_ms} ms (read, end): {behind}{why}")

    def ensure_topic(self, topic: str, copies: int) -> None:
        """Create another topic, with one partition, if it is missing. Thread-safe; may block on the network.

        Does nothing before `start`. A topic that was found once is not looked up again. With -1 copies the brokers' default counts.
        """
        if topic in self._ensured or self._admin is None:
            return
        try:
            if topic not in self._admin.list_topics(timeout=_CALL_S).topics:
                self._make(self._admin, [NewTopic(topic, 1, replication_factor=copies)])
        except KafkaException as error:
            raise StoreError(f"cannot create topic {topic}: {_text(error)}") from error
        self._ensured.add(topic)

    def close(self) -> None:
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join(5)

    def _ends(self, topics: Sequence[str], deadline: Deadline) -> dict[tuple[str, int], int]:
        """Ask where the partitions end; again where a broker does not know of them, or is not there."""
        assert self._admin is not None
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # untyped there
        asked = {TopicPartition(*each): latest for each in self._numbered(topics)}
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
            self._learn_leaders(self._admin, topics, deadline)

    def _learn_leaders(self, admin: AdminClient, topics: Sequence[str], deadline: Deadline) -> None:
        """Fetch the topics' metadata: librdkafka's `list_offsets` keeps a leader epoch that brokers refuse.

        Brokers raise it at each restart and each change of leaders (KIP-320). librdkafka asks for it again on
        FENCED_LEADER_EPOCH, but `list_offsets` goes on with the epoch that it has cached.
        """
        for topic in topics:
            try:
                # one attempt at least, as above
                admin.list_topics(
                    topic, timeout=max(1.0, deadline.remaining_ms(_ATTEMPT_MS) / 1000)
                )
            except KafkaException as error:
                logger.debug("metadata of %s: %s", topic, _text(error))

    def _create(self, admin: AdminClient, deadline: Deadline) -> None:
        """Create topics that are missing, and learn how many partitions each has."""
        wanted = [
            NewTopic(
                topic,
                count,
                replication_factor=self._replication_factors.get(topic, -1),
                config={"cleanup.policy": "compact"},
            )
            for topic, count in self._topics.items()
        ]
        about_all = admin.list_topics(timeout=_CALL_S)
        # None where a broker does not say
        self.cluster_id = cast("str | None", about_all.cluster_id) or ""
        missing = [each for each in wanted if each.topic not in about_all.topics]
        if missing:
            self._make(admin, missing)
        while self._topics.keys() - self.partitions.keys():
            for topic, about in admin.list_topics(timeout=_CALL_S).topics.items():
                if topic in self._topics and about.error is None and about.partitions:
                    self.partitions[topic] = len(about.partitions)
            if deadline.expired:
                raise StoreError(f"the topics {', '.join(self._topics)} were not created in time")
            if self._topics.keys() - self.partitions.keys():
                self._closing.wait(0.05)

    def _make(self, admin: AdminClient, missing: list[NewTopic]) -> None:
        for topic, future in admin.create_topics(missing, request_timeout=_CALL_S).items():
            try:
                future.result(_CALL_S)
                logger.info("created topic %s", topic)
            except KafkaException as error:
                code = error.args[0].code()
                default = self._replication_factors.get(topic, -1) < 0
                if code == KafkaError._UNSUPPORTED_FEATURE and default:  # noqa: SLF001 - its public name
                    raise StoreError(
                        f"topic {topic}: brokers before Kafka 2.4 have no default number of copies"
                        " (KIP-464); set storage.replication.factor"
                    ) from error
                if code != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise

    def _check(self, admin: AdminClient) -> None:
        """Refuse topics that forget."""
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in self._topics]
        for resource, future in admin.describe_configs(resources).items():
            try:
                policy = future.result(_CALL_S)["cleanup.policy"].value
            except KafkaException as error:
                logger.info("topic %s: cannot read its settings: %s", resource.name, _text(error))
                continue
            if policy != "compact":
                raise StoreError(
                    f"topic {resource.name} has cleanup.policy={policy}, which would delete the records in"
                    " it: set it to compact"
                )

    def _connected(self) -> AdminClient:
        return AdminClient({**self._settings, **self._admin_watch.settings()})

    def _opened(self) -> Consumer:
        """Return a consumer that goes on where reading is."""
        consumer = Consumer(
            {
                **self._settings,
                # of no group that anything could be committed for
                "group.id": f"groupsdk-store-{uuid.uuid4()}",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
                **self._consumer_watch.settings(),
            }
        )
        consumer.assign(
            [
                TopicPartition(*each, self._positions.get(each, OFFSET_BEGINNING))
                for each in self._numbered(self._topics)
            ]
        )
        return consumer

    def _numbered(self, topics: Iterable[str]) -> list[tuple[str, int]]:
        return [(topic, number) for topic in topics for number in range(self.partitions[topic])]

    def _read(self) -> None:
        while not self._closing.is_set():
            try:
                self._read_on()
            except Exception as error:
                logger.debug("reading %s", ", ".join(self._topics), exc_info=True)
                self._trouble(self._topics, _text(error))
                self._closing.wait(_POLL_S)
            if self._troubles:
                self._give_up()
        self._drop_consumer()

    def _read_on(self) -> None:
        if self._anew_at_ms is not None and self._clock.now_ms() >= self._anew_at_ms:
            self._anew_at_ms = None
            self._drop_consumer()
        if self._consumer_watch.lost:
            logger.warning(
                "reading %s: no broker is known any more; reconnecting", ", ".join(self._topics)
            )
            self._drop_consumer()
        if self._consumer is None:
            self._consumer = self._opened()
        # waiting for a batch would wait for all of it
        messages = self._consumer.consume(1, _POLL_S)
        if messages:
            messages += self._consumer.consume(_BATCH, 0)
        for message in messages:
            self._take(message)
        if messages:
            with self._moved:
                self._moved.notify_all()
        if self._admin is not None:
            # its statistics and log lines come with that, and pile up in an outage without
            self._admin.poll(0)
            if self._admin_watch.lost:
                self._admin = self._connected()
        self._idle()

    def _drop_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            # one that has failed has nothing to say that was not said before
            with contextlib.suppress(KafkaException, RuntimeError):
                consumer.close()

    def _trouble(self, topics: Iterable[str], why: str) -> None:
        """Record that topics cannot be read, and restart reading after a backoff."""
        now_ms = self._clock.now_ms()
        with self._moved:
            for topic in topics:
                since_ms, _ = self._troubles.get(topic, (now_ms, ""))
                self._troubles[topic] = since_ms, why
            self._unheard.update(self._numbered(topics))
        if self._anew_at_ms is not None:
            return
        wait_ms = _BACKOFF.backoff_ms(self._failures, self._random)
        self._anew_at_ms = now_ms + wait_ms
        self._failures += 1
        # not each time: it may last for hours
        level = logging.WARNING if self._failures & (self._failures - 1) == 0 else logging.DEBUG
        logger.log(
            level,
            "cannot read %s (attempt %d), retrying in %d ms: %s",
            ", ".join(sorted(self._troubles)),
            self._failures,
            wait_ms,
            why,
        )

    def _heard(self, topic: str, number: int) -> None:
        """Record that a partition is read again."""
        with self._moved:
            self._unheard.discard((topic, number))
            if topic not in self._troubles or any(each == topic for each, _ in self._unheard):
                return
            del self._troubles[topic]
            if not self._troubles:
                self._failures = 0
                self._anew_at_ms = None
        logger.info("reading %s again", topic)

    def _take(self, message: Message) -> None:
        topic, number, offset = message.topic(), message.partition(), message.offset()
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  # confluent-kafka's name for it
            self._trouble(self._topics if topic not in self._topics else [topic], error.str())
            return
        assert topic is not None
        assert number is not None
        assert offset is not None
        if error is None:
            key, value = message.key(), message.value()
            if key is not None:
                self._on_record(
                    topic, number, _bytes(key), None if value is None else _bytes(value), offset
                )
            offset += 1
        self._moved_to(topic, number, offset)
        if self._troubles:
            self._heard(topic, number)

    def _moved_to(self, topic: str, number: int, position: int) -> None:
        """Record the position of a partition, and call what waited for it."""
        reached = []
        with self._moved:
            self._positions[topic, number] = position
            waiting = self._waiting.get((topic, number), [])
            while waiting and waiting[0][0] < position:
                reached.append(heapq.heappop(waiting)[-1])
        for act in reached:
            act(None)

    def _give_up(self) -> None:
        """Fail the calls that have waited for long for a topic that cannot be read.

        A task that waits has to end in time when its worker leaves the group for the same reason.
        """
        before_ms = self._clock.now_ms() - _GIVE_UP_MS
        given_up = []
        with self._moved:
            for (topic, number), waiting in self._waiting.items():
                since_ms, why = self._troubles.get(topic, (before_ms + 1, ""))
                if since_ms > before_ms:
                    continue
                given_up += [(each[-1], why) for each in waiting if each[2] <= before_ms]
                kept = [each for each in waiting if each[2] > before_ms]
                heapq.heapify(kept)
                self._waiting[topic, number] = kept
        for act, why in given_up:
            act(why)


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _text(error: Exception) -> str:
    return error.args[0].str() if isinstance(error, KafkaException) else str(error)
