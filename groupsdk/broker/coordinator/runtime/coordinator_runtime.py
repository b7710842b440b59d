"""Run a coordinator's state machine on its log: its records are appended and replayed before its replies are sent."""

import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from groupsdk.broker.coordinator.runtime.contract import (
    NOTHING,
    UNPREPARED,
    CoordinatorShard,
    GatheringShard,
    LogRecord,
    MarkerPartitions,
    ProducerStamp,
    Record,
    RequestContext,
    Result,
)
from groupsdk.broker.coordinator.runtime.scheduler import Scheduler, Timer
from groupsdk.error_code import ErrorCode
from groupsdk.errors import GroupSdkError
from groupsdk.wire.records.pairs import Pair
from groupsdk.wire.schema import Request, Response


logger = logging.getLogger(__name__)
AT_ONCE_RECORDS: Final = 2_000
"""How many records of a log are replayed before its loading goes on in steps."""
_STEP_RECORDS: Final = 250
"""How many records are replayed in a step, which takes about half a millisecond."""
_MAX_FAILURES: Final = 8
_WRITE_TIMEOUT_MS: Final = 5_000
_AFTER_FAILURE_MS: Final = 1_000

Answer = Callable[[Response], None]


class Replayed(NamedTuple):
    """One record of a log, with the producer of its batch; None: the batch is not transactional."""

    record: LogRecord
    producer: ProducerStamp | None


class Marker(NamedTuple):
    """The end of a transaction in a log."""

    producer: ProducerStamp
    committed: bool
    """Whether it committed; False: it aborted."""


class CoordinatorLog(Protocol):
    """The log of one coordinator's partition, as used by its runtime."""

    def append(
        self, records: Sequence[Record], producer: ProducerStamp | None, now_ms: int
    ) -> None:
        """Encode records and append them as one batch, atomically.

        Raises GroupSdkError if they could not be encoded or, with an `error_code`, not be appended.
        """

    def load(self) -> Iterator[Replayed | Marker | list[Pair]]:
        """Yield the whole log in order: records and transaction markers, records without a producer as lists of pairs."""


class ConnectionLoad(Protocol):
    """The number of connections, as far as batching depends on it."""

    @property
    def has_many_connections(self) -> bool:
        """Whether there are so many connections that requests are likely to arrive together."""


class RuntimeState(Enum):
    """The state of a runtime (Kafka: CoordinatorRuntime.CoordinatorState)."""

    LOADING = "Loading"
    """Its log is being replayed; requests are answered with COORDINATOR_LOAD_IN_PROGRESS."""
    ACTIVE = "Active"
    """It handles requests."""
    FAILED = "Failed"
    """Its log cannot be loaded; requests are answered with COORDINATOR_NOT_AVAILABLE."""
    CLOSED = "Closed"
    """The partition has moved away; requests are answered with NOT_COORDINATOR."""


class RuntimeTrigger(Enum):
    """The events that change a runtime's state; the value is the label in the diagram."""

    LOADED = "the whole log is replayed"
    LOADING_FAILED = "the log cannot be read"
    UNLOADED = "the partition moves, or the broker stops"


TRANSITIONS: Final[Mapping[tuple[RuntimeState, RuntimeTrigger], RuntimeState]] = {
    (RuntimeState.LOADING, RuntimeTrigger.LOADED): RuntimeState.ACTIVE,
    (RuntimeState.LOADING, RuntimeTrigger.LOADING_FAILED): RuntimeState.FAILED,
    # work resumed after the replay may fail, too
    (RuntimeState.ACTIVE, RuntimeTrigger.LOADING_FAILED): RuntimeState.FAILED,
    **{(each, RuntimeTrigger.UNLOADED): RuntimeState.CLOSED for each in RuntimeState},
}
"""All transitions; a failed runtime is replaced by a new one."""


class CoordinatorRuntime:
    """Runs the state machine of one partition, carrying out its results.

    Not thread-safe: every call, and the scheduler's, must come from one thread.

    Args:
        defer: calls a function in the next iteration of the event loop.
        write_markers: starts writing the end of a transaction to the partitions it touched, without waiting; None:
            the machine has no transactions.
        connection_load: while there are many connections, small commits wait for the end of the event loop's
            iteration, and are written as one batch (Kafka: append.linger.ms); None: they never wait.
        write_timeout_ms: returns for how many milliseconds a request may wait for that before it is refused (Kafka:
            offsets.commit.timeout.ms).
        in_steps: calls one step of loading a long log, or of a large request, between which other requests are served;
            None: `defer`.
    """

    def __init__(
        self,
        name: str,
        shard: CoordinatorShard,
        log: CoordinatorLog,
        scheduler: Scheduler,
        defer: Callable[[Callable[[], Any]], Any],
        write_markers: Callable[[MarkerPartitions], None] | None = None,
        connection_load: ConnectionLoad | None = None,
        write_timeout_ms: Callable[[], int] = lambda: _WRITE_TIMEOUT_MS,
        in_steps: Callable[[Callable[[], Any]], Any] | None = None,
    ) -> None:
        self.name = name
        self.shard = shard
        self.state = RuntimeState.LOADING
        self._log = log
        self._scheduler = scheduler
        self._defer = defer
        self._in_steps = defer if in_steps is None else in_steps
        self._write_markers = write_markers
        self._gathering = shard if isinstance(shard, GatheringShard) else None
        self._connection_load = connection_load
        self._write_timeout_ms = write_timeout_ms
        self._gathered_since_ms = 0
        self._gathered: list[tuple[Request[Any], RequestContext]] = []
        self._in_progress: dict[int, tuple[Request[Any], RequestContext]] = {}
        self._owed: dict[int, Answer] = {}
        self._tokens = 0
        self._timer: Timer | None = None
        self._loading: Iterator[Replayed | Marker | list[Pair]] | None = None
        self._pairs: list[Pair] = []  # of the last batch, not replayed yet
        self._load_start_ms = 0
        self._records = 0
        self._retry_at_ms: int | None = None

    @property
    def is_worth_another_try(self) -> bool:
        """Whether loading failed a second ago or more, for a reason that may have passed, such as a full disk."""
        at_ms = self._retry_at_ms
        return at_ms is not None and self._scheduler.now_ms() >= at_ms

    def load(self, at_once: int = AT_ONCE_RECORDS) -> int:
        """Start loading the log. Return how many records were replayed; errors set the state FAILED.

        Args:
            at_once: a log of fewer records is loaded on return, and others go on in steps.
        """
        self._load_start_ms = self._scheduler.now_ms()
        self._loading = self._log.load()
        self._load_step(at_once)
        return self._records

    def _load_step(self, most: int = _STEP_RECORDS) -> None:
        loading = self._loading
        if self.state is not RuntimeState.LOADING or loading is None:
            return
        shard = self.shard
        try:
            # of several batches: records decoded together are replayed together
            pairs = self._pairs
            count = len(pairs)
            for entry in loading if count < most else ():
                if isinstance(entry, list):
                    count += len(entry)
                    pairs += entry
                else:
                    count += 1
                    self._replay_pairs(pairs, None)
                    pairs = []
                    if isinstance(entry, Marker):
                        shard.replay_marker(entry.producer, committed=entry.committed)
                    else:
                        self._replay_pairs((entry.record,), entry.producer)
                if count >= most:
                    break
            self._pairs = pairs[most:]
            self._replay_pairs(pairs[:most], None)
            self._records += count - len(self._pairs)
            if count < most:
                self._loaded()
                return
        except Exception as error:  # otherwise it would stay in Loading forever
            logger.exception("%s: loading the log failed; requests will be refused", self.name)
            self._move(RuntimeTrigger.LOADING_FAILED)
            if getattr(error, "retriable", False):
                self._retry_at_ms = self._scheduler.now_ms() + _AFTER_FAILURE_MS
            return
        self._in_steps(self._load_step)

    def _move(self, trigger: RuntimeTrigger) -> None:
        self.state = TRANSITIONS[self.state, trigger]

    def _replay_pairs(self, pairs: Sequence[Pair], producer: ProducerStamp | None) -> None:
        for record in self.shard.decode(pairs):
            self.shard.replay(record, producer)

    def _loaded(self) -> None:
        self._loading = None
        self._move(RuntimeTrigger.LOADED)
        now_ms = self._scheduler.now_ms()
        if self._records:
            taken_ms = now_ms - self._load_start_ms
            logger.info("%s: loaded %d records in %d ms", self.name, self._records, taken_ms)
        self._do(self.shard.loaded(now_ms), now_ms)

    def unavailable(self) -> ErrorCode | None:
        """Return the error to answer requests with; None if they can be submitted."""
        match self.state:
            case RuntimeState.ACTIVE:
                return None
            case RuntimeState.LOADING:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            case RuntimeState.FAILED:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
            case RuntimeState.CLOSED:
                return ErrorCode.NOT_COORDINATOR

    def submit(
        self,
        request: Request[Any],
        answer: Answer,
        api_version: int,
        client_id: str,
        client_host: str,
        principal: str,
        is_large: bool = False,
    ) -> None:
        """Pass a request to the state machine. Call it only while `unavailable` returns None.

        Args:
            answer: called exactly once with the response, before this returns or later, on the same thread.

        Raises:
            TypeError: the machine does not handle such requests; `answer` is not called.
        """
        self._tokens = token = self._tokens + 1
        self._owed[token] = answer
        context = RequestContext(token, api_version, client_id, client_host, principal)
        load, gathering = self._connection_load, self._gathering
        if is_large and gathering is not None:
            self._in_progress[token] = request, context
            now_ms = self._scheduler.now_ms()
            self._go_on(gathering, token, gathering.handle_in_steps(request, context, now_ms))
            return
        if (
            load is not None
            and load.has_many_connections
            and gathering is not None
            and gathering.may_wait(request)
        ):
            if not self._gathered:
                self._gathered_since_ms = self._scheduler.now_ms()
                self._defer(self._do_gathered)
            self._gathered.append((request, context))
            return
        now_ms = self._scheduler.now_ms()
        try:
            result = self.shard.handle(request, context, now_ms)
        except BaseException:
            self._owed.pop(token, None)
            raise
        if result.is_large and gathering is not None:
            self._in_progress[token] = request, context
            rest = (
                self._prepare(gathering, request, context)
                if result is UNPREPARED
                else gathering.encode_in_steps(request, result)
            )
            self._in_steps(partial(self._go_on, gathering, token, rest))
            return
        self._do(result, now_ms)

    def _prepare(
        self, gathering: GatheringShard, request: Request[Any], context: RequestContext
    ) -> Generator[None, None, Result | None]:
        yield from gathering.prepare_in_steps(request)
        result = gathering.handle_prepared(request, context, self._scheduler.now_ms())
        if not result.is_large:
            return result
        return (yield from gathering.encode_in_steps(request, result))

    def _go_on(
        self, gathering: GatheringShard, token: int, steps: Generator[None, None, Result | None]
    ) -> None:
        """Do the next step of a large request."""
        if token not in self._in_progress:
            return  # unloaded
        request, context = self._in_progress[token]
        try:
            try:
                next(steps)
            except StopIteration as last:
                del self._in_progress[token]
                now_ms = self._scheduler.now_ms()
                result = last.value or gathering.handle_prepared(request, context, now_ms)
                self._do(result, now_ms)
                return
        except Exception as error:  # noqa: BLE001 - a bug in one request must not stop the others
            self._in_progress.pop(token, None)
            self._failed(gathering, request, context, error)
            return
        self._in_steps(partial(self._go_on, gathering, token, steps))

    def _failed(
        self,
        gathering: GatheringShard,
        request: Request[Any],
        context: RequestContext,
        error: Exception,
    ) -> None:
        """Log a bug, and answer the request: it has no caller any more, and no client may wait forever."""
        logger.error("%s: %s failed", self.name, type(request).__name__, exc_info=error)
        if context.token in self._owed:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            self._answer(context.token, gathering.refuse(request, code, context.api_version))

    def _do_gathered(self) -> None:
        """Process the requests gathered in this iteration of the loop, and write them as one batch."""
        gathered, self._gathered = self._gathered, []
        gathering = self._gathering
        if not gathered or gathering is None:
            return
        now_ms = self._scheduler.now_ms()
        if now_ms - self._gathered_since_ms > self._write_timeout_ms():
            # the loop was stopped, as when the machine slept: by now the clients have retried elsewhere
            for request, context in gathered:
                error = ErrorCode.REQUEST_TIMED_OUT
                self._answer(context.token, gathering.refuse(request, error, context.api_version))
            return
        if len(gathered) > 1 and self._did_together(gathering, gathered, now_ms):
            return
        for request, context in gathered:
            self._handle_waiting(gathering, request, context)

    def _handle_waiting(
        self, gathering: GatheringShard, request: Request[Any], context: RequestContext
    ) -> None:
        """Handle a request that was gathered or queued."""
        now_ms = self._scheduler.now_ms()
        try:
            self._do(gathering.handle(request, context, now_ms), now_ms)
        except Exception as error:  # noqa: BLE001 - a bug in one request must not stop the others
            self._failed(gathering, request, context, error)

    def _did_together(
        self,
        gathering: GatheringShard,
        gathered: Sequence[tuple[Request[Any], RequestContext]],
        now_ms: int,
    ) -> bool:
        result = NOTHING
        try:
            result = gathering.handle_all(gathered, now_ms)
            if result.records:
                self._log.append(result.records, result.producer, now_ms)
        except Exception as error:  # handled one by one, the faulty request gets its own error
            # usually the records are too large for one batch, or the disk is full
            level = logging.DEBUG if isinstance(error, GroupSdkError) else logging.ERROR
            logger.log(
                level,
                "%s: handling %d requests together failed; handling them one by one",
                self.name,
                len(gathered),
                exc_info=error,
            )
            return False
        following = NOTHING
        if result.records:
            for record in result.records:
                gathering.replay(record, result.producer)
            following = gathering.written(result, now_ms)
        for reply in result.replies:
            self._answer(reply.token, reply.response)
        self._do(following, now_ms)
        return True

    def apply(self, result: Result) -> bool:
        """Carry out a result that the machine returned to another caller. Return whether its records were appended."""
        return self._do(result, self._scheduler.now_ms())

    def marked(self, producer: ProducerStamp, *, committed: bool) -> None:
        """Replay a transaction marker that was just appended to the log."""
        self.shard.replay_marker(producer, committed=committed)
        self._arm()

    @property
    def waiting(self) -> int:
        """The number of unanswered requests."""
        return len(self._owed)

    def advance(self) -> None:
        """Run the state machine's due deadlines; does nothing unless active."""
        self._timer = None
        if self.state is not RuntimeState.ACTIVE:
            return
        self._do_gathered()  # gathered requests came first, and may renew a session that expires now
        # not the clock's time: after a stall, requests that arrived since then may not have been read
        now_ms = self._scheduler.due_ms()
        deadline_ms = self.shard.deadline_ms
        if deadline_ms is None or deadline_ms > now_ms:
            self._arm()
            return
        try:
            self._do(self.shard.advance(now_ms), now_ms)
        except BaseException:
            # a bug, which the scheduler reports; it must not block the other groups
            self._timer = self._scheduler.after(_AFTER_FAILURE_MS, self.advance)
            raise

    def unload(self, error: ErrorCode) -> None:
        """Answer all parked requests with an error and stop; the runtime is CLOSED afterwards."""
        if self.state is RuntimeState.ACTIVE:
            self._do_gathered()
            while self._in_progress and self._gathering is not None:
                token, (request, context) = self._in_progress.popitem()
                self._answer(token, self._gathering.refuse(request, error, context.api_version))
            now_ms = self._scheduler.now_ms()
            for reply in self.shard.unload(error, now_ms).replies:
                self._answer(reply.token, reply.response)
        self._move(RuntimeTrigger.UNLOADED)
        self._loading = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _do(self, result: Result, now_ms: int) -> bool:
        """Write a result, send its replies, and carry out what follows. Return whether it was written."""
        written = True
        while result is not NOTHING:
            following = NOTHING
            if result.records:
                done, following = self._write(result, now_ms)
                if done is not result:
                    result, written = done, False
            for token, response in result.replies:
                self._answer(token, response)
            if result.markers and self._write_markers is not None:
                for markers in result.markers:
                    self._write_markers(markers)
            result = following
        self._arm()
        return written

    def _write(self, result: Result, now_ms: int) -> tuple[Result, Result]:
        """Append and replay the records. Return the result, or the machine's other one if that fails, and what follows."""
        shard = self.shard
        for _ in range(_MAX_FAILURES):
            if not result.records:
                return result, NOTHING
            try:
                self._log.append(result.records, result.producer, now_ms)
            except GroupSdkError as error:
                code = getattr(error, "error_code", ErrorCode.UNKNOWN_SERVER_ERROR)
                logger.warning(
                    "%s: %d records not written: %s", self.name, len(result.records), error
                )
                result = shard.append_failed(result, code, now_ms)
                continue
            for record in result.records:
                shard.replay(record, result.producer)
            return result, shard.written(result, now_ms)
        return Result(replies=result.replies), NOTHING

    def _answer(self, token: int, response: Response) -> None:
        answer = self._owed.pop(token, None)
        if answer is None:
            logger.error(
                "%s: a response for an unknown or answered request: %s",
                self.name,
                type(response).__name__,
            )
        else:
            answer(response)

    def _arm(self) -> None:
        deadline_ms = self.shard.deadline_ms
        timer = self._timer
        if deadline_ms is None or (timer is not None and timer.at_ms <= deadline_ms):
            return
        if timer is not None:
            timer.cancel()
        self._timer = self._scheduler.at(deadline_ms, self.advance)
