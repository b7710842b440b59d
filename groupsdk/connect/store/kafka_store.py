"""Keep configurations, task states and statuses in three compacted topics, as Kafka Connect does."""

import json
import logging
import threading
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from groupsdk.clock import Clock, Deadline, SystemClock
from groupsdk.connect.config import ConnectConfig
from groupsdk.connect.errors import (
    RecordTooLargeError,
    StoreError,
    StoreFencedError,
    TaskFencedError,
)
from groupsdk.connect.group.work import STANDBYS_KEY, StandbyRecord
from groupsdk.connect.store.config_backing_store import Record
from groupsdk.connect.store.kafka_state import FORGET, KafkaState, state_key, state_value
from groupsdk.connect.store.status_backing_store import Status, TopicUse, topic_key
from groupsdk.connect.store.store import BaseStore, StateKey
from groupsdk.connect.tasks.task import TaskState
from groupsdk.dead_letters import ErrantRecord


logger = logging.getLogger(__name__)

_WRITE_MS: Final = 15_000
_POLL_S: Final = 0.05
_FENCED: Final = (
    KafkaError._FENCED,  # noqa: SLF001  # confluent-kafka's name for it
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
)
_TOO_LARGE: Final = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE)


class KafkaStore(BaseStore):
    """The store of a group of workers (`ConnectStore`, which documents its methods).

    Configurations are written in transactions under one transactional id: a new leader begins by fencing the previous
    one, so that a leader which was paused can write nothing when it resumes.

    Workers of one process and one group share what they read, and the producer of states and statuses."""

    def __init__(self, config: ConnectConfig, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._writer: Producer | None = None
        self._state = KafkaState(config, self._clock)
        super().__init__(self._state)
        self._started = False

    def start(self) -> None:
        self._content = self._state = KafkaState.shared(self._state)
        self._started = True
        # the callbacks that are set by then, or later
        self._state.listen(self, lambda: self.on_change(), lambda request: self.on_request(request))

    def close(self) -> None:
        """Flush pending records, and close the store. May be repeated."""
        started, self._started = self._started, False
        self._writer = None
        if started:
            self._state.unlisten(self)
            self._state.release()

    @property
    def _producer(self) -> Producer | None:
        return self._state.producer if self._started else None

    def read_configs(self, timeout_ms: int) -> None:
        self._state.log.read_to_end([self._config.config_storage_topic], timeout_ms)

    def cluster_id(self) -> str:
        return self._state.log.cluster_id

    def failing_ms(self) -> int:
        return self._state.log.failing_ms(self._config.config_storage_topic)

    def claim(self) -> None:
        name = f"connect-cluster-{self._config.member.group_id}"
        self._writer = self._fencing(name, "becoming the writer of configurations")
        self.read_configs(_WRITE_MS)

    def _fencing(self, name: str, what: str) -> Producer:
        """Return a producer that has fenced all others of its transactional id; `what` is for the error."""
        producer = Producer({**self._config.librdkafka(), "transactional.id": name})
        try:
            producer.init_transactions(_WRITE_MS / 1000)
        except KafkaException as error:
            raise _store_error(what, error) from error
        return producer

    def write_configs(self, records: Sequence[Record]) -> None:
        """Write configurations in one transaction, and wait until they are read back."""
        writer = self._writer
        if writer is None:
            raise StoreFencedError("this worker has not claimed the configurations")
        topic = self._config.config_storage_topic
        # encoded before, since what raises within the transaction leaves it open, and readers wait for its end
        encoded = [
            (key.encode(), None if value is None else json.dumps(value).encode())
            for key, value in records
        ]
        written: list[int] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            # an error is raised by the commit
            if error is None:
                written.append(message.offset() or 0)

        try:
            writer.begin_transaction()
            for key, data in encoded:
                self._produce(writer, topic, key, data, on_delivery=delivered)
            writer.commit_transaction(_WRITE_MS / 1000)
        except KafkaException as error:
            self._abandon(writer, error)
            raise _store_error("writing configurations", error) from error
        except BaseException as error:
            self._abandon(writer, error)
            raise
        if written:
            self._state.log.read_to({(topic, 0): max(written) + 1}, _WRITE_MS)

    def fence_producers(self, connector: str, count: int) -> None:
        """Fence the transactional producers of a connector's tasks (KIP-618): initialise each one's transactional id.

        Blocks, one producer after the other.
        """
        for number in range(count):
            # as Kafka's `Worker.taskTransactionalId` makes it
            taken = f"{self._config.member.group_id}-{connector}-{number}"
            self._fencing(taken, f"fencing the producer {taken}")

    def _abandon(self, writer: Producer, error: BaseException) -> None:
        try:
            writer.abort_transaction(_WRITE_MS / 1000)
        except KafkaException as again:
            logger.info("aborting after %s: %s", error, again)
            self._writer = None

    def put_status(self, key: str, status: Status | None) -> None:
        self._say(key, None if status is None else status.record())

    def put_topic(self, use: TopicUse) -> None:
        self._say(use.key, use.record())

    def forget_topics(self, connector: str) -> None:
        for topic in self.topics(connector):
            self._say(topic_key(topic, connector), None)

    def put_dead_letter(self, topic: str, copies: int, record: ErrantRecord) -> None:
        """Write a record that could not be handled to a topic, and wait until Kafka has stored it.

        It gets the time of the write: with that of an old record, Kafka's retention could delete it at once.
        """
        producer = self._producer
        if producer is None:
            raise StoreError("the store is closed")
        self._state.log.ensure_topic(topic, copies)
        kept: Future[None] = Future()

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                kept.set_result(None)
            else:
                kept.set_exception(StoreError(f"a dead letter for {topic}: {error.str()}"))

        self._produce(
            producer,
            topic,
            record.key,
            record.value,
            headers=list(record.headers) or None,
            on_delivery=delivered,
        )
        try:
            kept.result(_WRITE_MS / 1000)
        except TimeoutError:
            raise StoreError(f"a dead letter for {topic} could not be written in time") from None

    def put_standbys(self, record: StandbyRecord) -> None:
        self._say(STANDBYS_KEY, record.value())

    def _say(self, key: str, value: object | None) -> None:
        """Write a record of the status topic, without waiting; does nothing once the store is closed."""
        producer = self._producer
        if producer is not None:
            data = None if value is None else json.dumps(value).encode()
            self._produce(producer, self._config.status_storage_topic, key.encode(), data)

    def put_states(
        self, states: Mapping[StateKey, TaskState | None], token: int, timeout_ms: int
    ) -> None:
        deadline = Deadline(self._clock, timeout_ms)
        self.fence(states, token, timeout_ms)
        self._write_states(
            [(key, token, FORGET if state is None else state) for key, state in states.items()],
            deadline,
        )
        self._check_owned(states, token)

    def fence(
        self, keys: Iterable[StateKey], token: int, timeout_ms: int
    ) -> Mapping[StateKey, TaskState]:
        wanted = list(keys)
        deadline = Deadline(self._clock, timeout_ms)
        # read to where the fences stand: what counts of former owners comes before them
        self._write_states([(key, token, None) for key in wanted], deadline)
        self._check_owned(wanted, token)
        with self._state.lock:
            kept = {key: self._state.states.get(key)[1] for key in wanted}
            outdated = [(key, old) for key in wanted for old in self._state.states.outdated(key)]
        states = {key: state for key, state in kept.items() if state is not None}
        # once the state counts under our token as well, the records of former owners can go; where somebody
        # has fenced us off meanwhile it does not count, and those records are all there is
        self._write_states([(key, token, state) for key, state in states.items()], deadline)
        self._check_owned(wanted, token)
        for key, old in outdated:
            self._produce_state(key, old, None, delete=True)
        return states

    def commit(self, key: StateKey, token: int, state: TaskState) -> None:
        """Store a task's state, and wait until Kafka has it and it is known that no later owner came before."""
        deadline = Deadline(self._clock, _WRITE_MS)
        kept = self._commit(key, token, state, _WRITE_MS)
        try:
            kept.result(deadline.remaining_ms(_WRITE_MS) / 1000)
        except TimeoutError:
            raise StoreError(f"the state of task {key[1]!r} could not be written in time") from None

    def begin_commit(self, key: StateKey, token: int, state: TaskState) -> "Future[None]":
        return self._commit(key, token, state, 0)

    def _commit(self, key: StateKey, token: int, state: TaskState, wait_ms: int) -> "Future[None]":
        """Write a state, and read it with all that comes before it.

        An owner that was stopped at any point of this finds the fence of the next one before its own record.
        """
        future: Future[None] = Future()
        # under way from here on: nobody can cancel it
        future.set_running_or_notify_cancel()

        def read(trouble: str | None) -> None:
            if trouble is not None:
                why = f"the state of task {key[1]!r} was written, but reading it back failed: {trouble}"
                future.set_exception(StoreError(why))
                return
            try:
                self._check_owned([key], token)
            except TaskFencedError as error:
                future.set_exception(error)
            else:
                future.set_result(None)

        def delivered(error: KafkaError | None, message: Message) -> None:
            try:
                topic, number, offset = _written(error, message)
            except StoreError as failure:
                future.set_exception(failure)
            else:
                self._state.log.when_read(topic, number, offset, read)

        self._check_owned([key], token)
        self._produce_state(key, token, state, on_delivery=delivered, wait_ms=wait_ms)
        return future

    def _write_states(
        self, states: Sequence[tuple[StateKey, int, TaskState | bytes | None]], deadline: Deadline
    ) -> None:
        """Write states and return when all are kept, and have been read here with all that comes before them."""
        left = len(states)
        failures: list[StoreError] = []
        ends: dict[tuple[str, int], int] = {}
        done = threading.Event()
        lock = threading.Lock()

        def delivered(error: KafkaError | None, message: Message) -> None:
            nonlocal left
            with lock:
                left -= 1
                try:
                    topic, number, offset = _written(error, message)
                except StoreError as failure:
                    failures.append(failure)
                else:
                    ends[topic, number] = max(offset + 1, ends.get((topic, number), 0))
                if left == 0:
                    done.set()

        for key, token, state in states:
            self._produce_state(key, token, state, on_delivery=delivered)
        if states and not done.wait(deadline.remaining_ms(_WRITE_MS) / 1000):
            raise StoreError(f"{left} of {len(states)} task states could not be written in time")
        if failures:
            raise failures[0]
        self._state.log.read_to(ends, max(1, deadline.remaining_ms(_WRITE_MS)))

    def _produce_state(
        self,
        key: StateKey,
        token: int,
        state: TaskState | bytes | None,
        *,
        delete: bool = False,
        on_delivery: Callable[[KafkaError | None, Message], None] | None = None,
        wait_ms: int = _WRITE_MS,
    ) -> None:
        producer = self._producer
        if producer is None:
            raise StoreError("the store is closed")
        topic = self._config.offset_storage_topic
        try:
            data = state if isinstance(state, bytes) else None if delete else state_value(state)
        except (TypeError, ValueError) as error:
            raise StoreError(f"a state must be JSON-serializable: {error}") from error
        # all of a task's records in one partition, whatever their tokens: their order counts
        named = "\0".join(key).encode(errors="surrogatepass")  # names of files may be no UTF-8
        number = zlib.crc32(named) % self._state.log.partitions[topic]
        record = state_key(key, token), data
        self._produce(producer, topic, *record, wait_ms, partition=number, on_delivery=on_delivery)

    def _produce(
        self,
        producer: Producer,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        wait_ms: int = _WRITE_MS,
        **options: Any,
    ) -> None:
        given = {name: each for name, each in options.items() if each is not None}
        deadline: Deadline | None = None
        while True:
            try:
                producer.produce(topic, value=value, key=key, **given)
            except BufferError:
                deadline = deadline or Deadline(self._clock, wait_ms)
                if deadline.expired:
                    raise StoreError(f"the records for {topic} could not be sent in time") from None
                producer.poll(_POLL_S)
            except KafkaException as error:
                raise _store_error(f"writing to {topic}", error) from error
            else:
                return


def _written(error: KafkaError | None, message: Message) -> tuple[str, int, int]:
    """Return where a task's state was written: topic, partition and offset. Raises StoreError if it was not, or that is not known."""
    if error is not None:
        raise StoreError(f"task states could not be written: {error.str()}")
    topic, number, offset = message.topic(), message.partition(), message.offset()
    if topic is None or number is None or offset is None or offset < 0:
        # a retry that the broker knew already, from too long ago to say where
        raise StoreError("a task's state was written, but the broker did not return its offset")
    return topic, number, offset


def _store_error(what: str, error: Exception) -> StoreError | StoreFencedError:
    cause = error.args[0] if isinstance(error, KafkaException) else None
    if cause is not None and cause.code() in _FENCED:
        return StoreFencedError(f"{what}: another worker has become the writer")
    if cause is not None and cause.code() in _TOO_LARGE:
        return RecordTooLargeError(f"{what}: {cause.str()}")
    return StoreError(f"{what}: {error if cause is None else cause.str()}")
