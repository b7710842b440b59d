"""Hold what the three topics say, once for all workers of a process that read them with the same settings.

A hundred workers in one process are a way to test, and a program may run a few. Each would otherwise read all
topics, and keep all they say, for itself."""

import json
import logging
import os
import threading
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from groupsdk.clock import Clock
from groupsdk.connect.config import ConnectConfig
from groupsdk.connect.errors import StoreError
from groupsdk.connect.group.work import STANDBYS_KEY, StandbyRecord
from groupsdk.connect.store.config_backing_store import ClusterRequest, decode_value
from groupsdk.connect.store.kafka_log import KafkaLog
from groupsdk.connect.store.status_backing_store import PREFIX as TOPIC_PREFIX, Status
from groupsdk.connect.store.store import StateKey, StoreContent, TaskStates
from groupsdk.connect.tasks.task import TaskState
from groupsdk.limits import MAX_INT64
from groupsdk.settings.librdkafka import BrokerWatch


def state_key(key: StateKey, token: int) -> bytes:
    """Encode the key of a task state's record, as in Connect's offset topic: the connector's name and a partition."""
    connector, task_id = key
    return json.dumps([connector, {"task": task_id, "generation": token}]).encode()


def state_value(state: TaskState | None) -> bytes:
    """Encode the value of a task state's record; None: a fence, which leaves the state as it was.

    Raises ValueError or TypeError if the state cannot be represented in JSON.
    """
    return json.dumps(
        {"fence": True} if state is None else {"state": dict(state)}, allow_nan=False
    ).encode()


FORGET: Final = json.dumps({"state": None}).encode()
"""The value of a record after which nothing was committed."""


class StateLog(TaskStates):
    """The task states resulting from the records so far. Records with lower tokens do not count, wherever they are."""

    def __init__(self) -> None:
        super().__init__()
        self._tokens: dict[StateKey, set[int]] = {}

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Apply the next record of a partition; one of another kind is skipped, and a tombstone removes only that token's record."""
        parsed = _key(key)
        if parsed is None:
            return
        name, token = parsed
        tokens = self._tokens.setdefault(name, set())
        if value is None:
            tokens.discard(token)
            return
        content = _json(value)
        if not isinstance(content, dict):
            return
        tokens.add(token)
        owner, known = self.get(name)
        if token < owner:
            return
        state = content.get("state", known)
        self.put(name, token, state if isinstance(state, dict | None) else known)

    def outdated(self, key: StateKey) -> list[int]:
        """Return the tokens of records that no longer count, in ascending order; these records can be deleted."""
        owner, _ = self.get(key)
        return sorted(token for token in self._tokens.get(key, ()) if token < owner)


def _key(data: bytes) -> tuple[StateKey, int] | None:
    content = _json(data)
    if not isinstance(content, list) or len(content) != 2:
        return None
    connector, part = content
    if not isinstance(connector, str) or not isinstance(part, dict):
        return None
    task_id, token = part.get("task"), part.get("generation")
    if not isinstance(task_id, str) or not isinstance(token, int) or isinstance(token, bool):
        return None
    if not 0 <= token <= MAX_INT64:
        return None
    return (connector, task_id), token


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


logger = logging.getLogger(__name__)

_POLL_S: Final = 0.2
_FLUSH_S: Final = 5.0
_SHARED: Final[dict["KafkaState", int]] = {}
"""What is read in this process, with the number of its users."""
_SHARED_LOCK: Final = threading.Lock()


class KafkaState(StoreContent):
    """The content of the three topics, and the producer for two of them."""

    def __init__(self, config: ConnectConfig, clock: Clock) -> None:
        super().__init__()
        self.states: StateLog = StateLog()
        self.producer: Producer | None = None
        """Writes states and statuses; None before the start and after the end."""
        self.log = KafkaLog(
            config.librdkafka(),
            {
                config.config_storage_topic: 1,
                config.offset_storage_topic: config.offset_storage_partitions,
                config.status_storage_topic: config.status_storage_partitions,
            },
            config.replication_factors,
            self._take,
            self._tell,
            clock,
        )
        self._producer_watch = BrokerWatch()
        self._config = config
        self._clock = clock
        self._pid = os.getpid()
        self._starting = threading.Lock()
        self._failed = False
        self._changed = False
        self._requests: list[ClusterRequest] = []
        self._listeners: dict[
            object, tuple[Callable[[], None], Callable[[ClusterRequest], None]]
        ] = {}
        self._poller = threading.Thread(target=self._poll, name="groupsdk-store-poll", daemon=True)

    @classmethod
    def shared(cls, own: "KafkaState") -> "KafkaState":
        """Return what another worker of this process reads already, or `own`, started; each call is followed by one of `release`."""
        with _SHARED_LOCK:
            alike = (each for each in _SHARED if each.usable and each.identity == own.identity)
            state = next(alike, own)
            _SHARED[state] = _SHARED.get(state, 0) + 1
        try:
            state.start()
        except BaseException:
            state.release()
            raise
        return state

    def start(self) -> None:
        """Begin to read, once; returns when everything is read."""
        with self._starting:
            if self._failed:
                raise StoreError("the topics could not be read for another worker of this process")
            if self.producer is None:
                try:
                    self._start()
                except BaseException:
                    self._failed = True
                    raise

    def release(self) -> None:
        """Stop using it; the last user flushes pending records and closes it."""
        producer = self.producer
        if producer is not None:
            producer.flush(_FLUSH_S)
        with _SHARED_LOCK:
            _SHARED[self] -= 1
            if _SHARED[self]:
                return
            del _SHARED[self]
        with self.lock:
            self.producer = None
        if self._poller.ident is not None:
            self._poller.join(_FLUSH_S)
        self.log.close()

    @property
    def usable(self) -> bool:
        """Whether another worker can count on it."""
        return not self._failed and not self.log.failed

    @property
    def identity(self) -> tuple[object, ...]:
        """The settings that two workers must share to read the same topics in the same way."""
        config, member = self._config, self._config.member
        return (
            member.bootstrap_servers,
            member.client_id,
            member.security,
            config.config_storage_topic,
            config.offset_storage_topic,
            config.status_storage_topic,
            tuple(config.replication_factors.values()),
            config.offset_storage_partitions,
            config.status_storage_partitions,
            type(self._clock),
            # a process that was forked has the object, and not the threads that read for it
            self._pid,
        )

    def listen(
        self,
        who: object,
        on_change: Callable[[], None],
        on_request: Callable[[ClusterRequest], None],
    ) -> None:
        """Register callbacks, under the hashable `who`, for what is read from now on. Thread-safe.

        They are called from the reader's thread: after configurations have changed, and with each request to all workers.
        """
        with self.lock:
            self._listeners = {**self._listeners, who: (on_change, on_request)}

    def unlisten(self, who: object) -> None:
        """Remove a listener's callbacks; an unknown listener is ignored. Thread-safe."""
        with self.lock:
            self._listeners = {key: each for key, each in self._listeners.items() if key is not who}

    def _start(self) -> None:
        self.log.start()
        if self.log.partitions[self._config.config_storage_topic] != 1:
            raise StoreError(
                f"topic {self._config.config_storage_topic} must have one partition: the order of"
                " configurations matters"
            )
        self.producer = self._connected()
        self._poller.start()

    def _connected(self) -> Producer:
        return Producer(
            {
                **self._config.librdkafka(),
                "enable.idempotence": True,
                "linger.ms": 2,
                # as workers in Java: what is said of one thing stands in one partition, in order
                "partitioner": "murmur2_random",
                **self._producer_watch.settings(),
            }
        )

    def _poll(self) -> None:
        while (producer := self.producer) is not None:
            producer.poll(_POLL_S)
            if self._producer_watch.lost:
                self._reconnect(producer)

    def _reconnect(self, old: Producer) -> None:
        """Replace a producer that knows no broker any more; what it has not written has failed."""
        logger.warning("writing states and statuses: no broker is known any more; reconnecting")
        try:
            new = self._connected()
        except KafkaException as error:  # its next statistics lead here again
            logger.warning("writing states and statuses: %s", error)
            return
        with self.lock:
            if self.producer is not None:  # None: it has been closed meanwhile
                self.producer = new
        old.purge()
        old.poll(0)

    def _tell(self) -> None:
        """Notify the listeners of the records read since the last call."""
        with self.lock:
            changed, self._changed = self._changed, False
            requests, self._requests = self._requests, []
            listeners = list(self._listeners.values())
        for on_change, on_request in listeners:
            try:
                if changed:
                    on_change()
                for request in requests:
                    on_request(request)
            except Exception:
                logger.exception(
                    "notifying a worker of new records failed; continuing with the others"
                )

    def _take(
        self, topic: str, partition: int, key: bytes, value: bytes | None, offset: int
    ) -> None:
        """Take a record. Whoever may write to the topics, none that is read ends the reading."""
        try:
            self._apply(topic, key, value, offset)
        except Exception as error:  # noqa: BLE001  # JSON that is nested too deep to be shown, for example
            kind = type(error).__name__
            logger.warning("%s-%d: skipping record %d: %s", topic, partition, offset, kind)

    def _apply(self, topic: str, key: bytes, value: bytes | None, offset: int) -> None:
        if topic == self._config.offset_storage_topic:
            with self.lock:
                self.states.apply(key, value)
            return
        name = key.decode(errors="replace")
        content: Any = decode_value(name, value)
        with self.lock:
            if topic == self._config.config_storage_topic:
                request = self.configs.apply(name, content, offset)
                self._changed = True
                if request is not None and self._listeners:
                    self._requests.append(request)
            elif name == STANDBYS_KEY:
                self._take_standbys(content)
            elif name.startswith(TOPIC_PREFIX):
                self.topics.apply(name, content)
            else:
                self._take_status(name, content)

    def _take_standbys(self, content: object | None) -> None:
        record = StandbyRecord.of(content)
        if record is not None and record.generation >= self.standbys.generation:
            self.standbys = record
            self._changed = True

    def _take_status(self, key: str, content: object | None) -> None:
        status = Status.of(content)
        if content is None:
            self.statuses.pop(key, None)
        elif status is not None:
            known = self.statuses.get(key)
            if known is None or known.generation <= status.generation:
                self.statuses[key] = status
