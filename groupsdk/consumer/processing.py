"""Process records on several threads: in order within a partition, with back-pressure."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Final, Self

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition as NativePartition

from groupsdk.assignment import TopicPartition
from groupsdk.clock import Clock, Deadline, SystemClock
from groupsdk.consumer.consumer import GroupConsumer
from groupsdk.consumer.subscription import TopicLike
from groupsdk.coordinator import refuse_unrun
from groupsdk.drivers.hosts.host import promise
from groupsdk.drivers.one_thread import CallersLock
from groupsdk.errors import ConfigError, GroupSdkError


logger = logging.getLogger(__name__)

Handler = Callable[[Message], object]
"""Processes one record; what it raises ends `run`."""

OnError = Callable[[Message, Exception], bool | float]
"""Decides about a record that cannot be processed: True passes over it, False ends `run`, and a number of seconds has
the handler called again after it; meanwhile the record's partition waits, and the others go on."""

_POLL_S: Final = 0.05
_MAX_DELAY_S: Final = 86_400
_MAX_KEY: Final = 60


class _Lane:
    """The unprocessed records of one partition; one thread at a time works on them."""

    __slots__ = ("busy", "cancelled", "done_offset", "queue", "retry_at_ms")

    def __init__(self) -> None:
        self.queue: deque[Message] = deque()
        self.busy: Future[None] | None = None
        self.cancelled = False
        self.retry_at_ms: int | None = None
        """When its first record is tried again; None: it does not wait for that."""
        self.done_offset: int | None = None
        """The offset after the last record that is processed."""


class _Workers:
    """A pool of daemon threads.

    A `ThreadPoolExecutor` would keep the process from ending while a handler hangs.
    """

    def __init__(self, count: int) -> None:
        self._missing = count
        self._started = 0
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def submit(self, job: Callable[[], None]) -> "Future[None]":
        done: Future[None] = promise()

        def run() -> None:
            job()
            done.set_result(None)

        self._jobs.put(run)
        if self._missing:
            self._missing -= 1
            self._started += 1
            threading.Thread(target=self._run, name="groupsdk-processing", daemon=True).start()
        return done

    def end(self) -> None:
        """End the threads after the jobs that were submitted, without waiting for that."""
        self._missing = 0
        for _ in range(self._started):
            self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


class PartitionProcessor:
    """Runs a handler for each record: partitions in parallel, the records of one partition in order.

    A partition whose handler is slow is paused while the member continues to poll, so that it keeps its membership
    however long a record takes. An offset is stored once its record is processed, and committed with the
    next auto-commit, before the partition is given up, and at the end.

    Before a partition is given up, the handler at work on it is waited for up to `revoke_timeout`; the
    records behind it are dropped, as their next owner reads them. What is lost is dropped at once.

    Args:
        consumer: made with ``enable.auto.offset.store=false``; it is used by `run` alone.
        handler: processes a record, on one of the threads.
        workers: how many threads.
        max_waiting: how many records of one partition may wait before it is paused.
        batch: how many records to fetch from librdkafka at a time.
        on_error: decides about a record whose handler raised; without it the exception comes out of `run`.
        revoke_timeout: seconds to wait for handlers at a revocation; less than max.poll.interval.ms.
        clock: the time; for tests.

    Raises:
        ConfigError: the consumer commits what was only read, or a number is out of bounds.
    """

    def __init__(
        self,
        consumer: GroupConsumer,
        handler: Handler,
        *,
        workers: int = 8,
        max_waiting: int = 500,
        batch: int = 500,
        on_error: OnError | None = None,
        revoke_timeout: float = 30.0,
        clock: Clock | None = None,
    ) -> None:
        if consumer.config.enable_auto_offset_store:
            raise ConfigError(
                "a PartitionProcessor stores offsets itself: create its consumer with"
                " enable.auto.offset.store=false"
            )
        if workers < 1 or max_waiting < 1 or batch < 1:
            raise ConfigError("workers, max_waiting and batch must be at least 1")
        self._consumer = consumer
        self._handler = handler
        self._on_error = on_error
        self._max_waiting = max_waiting
        self._batch = batch
        self._revoke_timeout_ms = int(revoke_timeout * 1000)
        self._clock = clock or SystemClock()
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._lock = CallersLock()
        self._failure: BaseException | None = None
        self._stopping = False
        self._workers = _Workers(workers)

    def subscribe(self, topics: TopicLike | Iterable[TopicLike]) -> None:
        """Subscribe the consumer, with this processor as its listener, to names and patterns as for `GroupConsumer.subscribe`."""
        self._consumer.subscribe(topics, listener=self)

    def run(self) -> None:
        """Process records until `stop`.

        Raises:
            GroupSdkError: what went wrong with the membership.
            KafkaException: a partition is read no more, since its offset is not there and auto.offset.reset is "none".
            Exception: what a handler raised, unless `on_error` passed over it; the record is not committed.
        """
        while not self._stopping:
            self.step()

    def step(self, timeout: float = _POLL_S) -> int:
        """Run one iteration: fetch records, hand them to the threads, store processed offsets.

        Args:
            timeout: seconds to wait for records, whose number is returned.

        Raises:
            Exception: as `run`.
        """
        self._store()
        self._raise_failure()
        batch = self._consumer.consume(self._batch, timeout)
        self._sort(batch)
        self._retry_due()
        self._balance()
        return len(batch)

    def stop(self) -> None:
        """Make `run` return. Thread-safe; signal handlers may call it."""
        self._stopping = True
        self._consumer.wakeup()

    def close(self) -> None:
        """Wait for running handlers up to `revoke_timeout`, commit and leave the group. Harmless when repeated."""
        try:
            # First: while the group rebalances, closing the consumer has time for one commit.
            self._await_handlers(self._lanes)
            with suppress(GroupSdkError):  # whatever it is, closing says it better
                self._store()
            self._consumer.close()
        finally:
            self._workers.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Called by the consumer (`RebalanceListener`).

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Create the queues of new partitions; called by the consumer."""
        for partition in partitions:
            self._lanes[partition] = _Lane()

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Wait for the running handlers of these partitions, commit processed records, and drop queued ones.

        A failed commit is logged. Called by the consumer; blocks for up to `revoke_timeout`.
        """
        try:
            self._await_handlers(partitions)
            self._store()
            self._consumer.commit(asynchronous=False, timeout=self._revoke_timeout_ms / 1000)
        except GroupSdkError as error:
            logger.warning(
                "offsets were not committed, so their records will be read again: %s", error
            )
        finally:
            self._drop(partitions)

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Drop all queued records of these partitions, which other members may own; called by the consumer."""
        self._drop(partitions)

    def _await_handlers(self, partitions: Iterable[TopicPartition]) -> None:
        working = []
        with self._lock:
            for partition in partitions:
                lane = self._lanes.get(partition)
                if lane is not None:
                    lane.cancelled = True
                    if lane.busy is not None:
                        working.append(lane.busy)
        deadline = Deadline(self._clock, self._revoke_timeout_ms)
        for future in working:
            if not self._wait(future, deadline.remaining_ms(self._revoke_timeout_ms)):
                logger.warning(
                    "a handler is still running after %d ms for a partition that is being revoked: the next"
                    " owner reads its record again",
                    self._revoke_timeout_ms,
                )
                return

    def _sort(self, batch: Iterable[Message]) -> None:
        """Put records into the lanes of their partitions, and schedule a thread for each."""
        touched: dict[TopicPartition, _Lane] = {}
        for message in batch:
            error = message.error()
            topic, partition = message.topic(), message.partition()
            if error is not None or topic is None or partition is None:
                self._report(error)
                continue
            where = TopicPartition(topic, partition)
            lane = self._lanes.get(where)
            if lane is not None:
                touched[where] = lane
                lane.queue.append(message)
        with self._lock:
            for lane in touched.values():
                if lane.retry_at_ms is None:
                    self._submit(lane)

    def _retry_due(self) -> None:
        """Schedule a thread for each lane whose first record is to be tried again now."""
        now_ms = self._clock.now_ms()
        with self._lock:
            for lane in self._lanes.values():
                if lane.retry_at_ms is not None and lane.retry_at_ms <= now_ms:
                    lane.retry_at_ms = None
                    self._submit(lane)

    def _submit(self, lane: _Lane) -> None:
        if lane.busy is None and not lane.cancelled:
            lane.busy = self._workers.submit(partial(self._work, lane))

    def _report(self, error: KafkaError | None) -> None:
        if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001  # its public name
            with self._lock:
                self._failure = self._failure or KafkaException(error)
        else:
            logger.warning("librdkafka: %s", error)

    def _work(self, lane: _Lane) -> None:
        """Process the records of a lane, on a thread of the pool."""
        while True:
            with self._lock:
                if lane.cancelled or self._failure is not None or not lane.queue:
                    lane.busy = None
                    return
                message = lane.queue.popleft()
            outcome = self._handle(message)
            with self._lock:
                if outcome is None:
                    lane.done_offset = (message.offset() or 0) + 1
                elif isinstance(outcome, BaseException):
                    if self._failure is None:
                        self._failure = outcome
                    lane.cancelled = True
                else:
                    lane.busy = None
                    if not lane.cancelled:
                        lane.queue.appendleft(message)
                        lane.retry_at_ms = self._clock.now_ms() + outcome
                    return

    def _handle(self, message: Message) -> BaseException | int | None:
        """Call the handler.

        Returns:
            None if the record is done; in how many milliseconds it is tried again; or the error that ends `run`, which
            a thread of the pool would keep.
        """
        try:
            try:
                returned: object = self._handler(message)
            except Exception as error:  # noqa: BLE001  # for `on_error`
                error.add_note(f"raised by the handler of the record {_place(message)}")
                return self._decide(message, error)
            # of all records, so it is not for `on_error` to pass over one
            refuse_unrun(returned)
        except BaseException as error:  # noqa: BLE001
            return error
        return None

    def _decide(self, message: Message, error: Exception) -> BaseException | int | None:
        decision: object = False if self._on_error is None else self._on_error(message, error)
        refuse_unrun(decision)
        if isinstance(decision, bool) or not isinstance(decision, int | float):
            return None if decision else error
        if not 0 <= decision <= _MAX_DELAY_S:
            raise ValueError(
                f"on_error returned {decision!r}: the seconds until the next attempt must be 0 to {_MAX_DELAY_S}"
            )
        return int(decision * 1000)

    def _store(self) -> None:
        with self._lock:
            done = []
            for (topic, number), lane in self._lanes.items():
                if lane.done_offset is not None:
                    done.append(NativePartition(topic, number, lane.done_offset))
                    lane.done_offset = None
        if done:
            self._consumer.store_offsets(offsets=done)

    def _balance(self) -> None:
        """Pause partitions with too many queued records, and resume those that have caught up."""
        paused = set(self._consumer.paused())
        full = []
        drained = []
        for where, lane in self._lanes.items():
            waiting = len(lane.queue)
            if waiting >= self._max_waiting and where not in paused:
                full.append(where)
            elif waiting <= self._max_waiting // 2 and where in paused:
                drained.append(where)
        if full:
            self._consumer.pause(full)
        if drained:
            self._consumer.resume(drained)

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        with self._lock:
            for partition in partitions:
                lane = self._lanes.pop(partition, None)
                if lane is not None:
                    lane.cancelled = True
                    lane.queue.clear()

    def _raise_failure(self) -> None:
        with self._lock:
            failure = self._failure
        if failure is not None:
            raise failure

    def _wait(self, future: "Future[None]", timeout_ms: int) -> bool:
        try:
            future.result(timeout_ms / 1000)
        except TimeoutError:
            return False
        return True


def _place(message: Message) -> str:
    key = message.key()
    shown = repr(key if key is None else key[:_MAX_KEY])
    return f"topic={message.topic()} partition={message.partition()} offset={message.offset()} key={shown}"
