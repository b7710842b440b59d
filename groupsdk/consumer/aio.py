"""The group consumer for asyncio: `AsyncGroupConsumer`."""

import asyncio
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from confluent_kafka import KafkaException, Message, TopicPartition as NativePartition

from groupsdk.consumer.aio_calls import AsyncConsumerCalls
from groupsdk.consumer.commits import CommitCallback
from groupsdk.consumer.config import ConsumerConfig
from groupsdk.consumer.confluent_types import first_offsets
from groupsdk.consumer.consumer import GroupConsumer
from groupsdk.consumer.job_thread import JobThread
from groupsdk.consumer.listener import check_listener
from groupsdk.consumer.subscription import TopicLike
from groupsdk.coordinator import awaited
from groupsdk.errors import ConcurrentUseError, GroupSdkError, MemberClosedError
from groupsdk.lazy_imports import override
from groupsdk.offsets import Offsets
from groupsdk.types import GroupMembershipOperation


if TYPE_CHECKING:
    from groupsdk.consumer.keywords import ConsumerSettings


T = TypeVar("T")


class AsyncGroupConsumer(AsyncConsumerCalls):
    """`GroupConsumer` for asyncio; methods have the same names and meanings.

    The consumer runs on a thread of its own, so that neither librdkafka nor a rebalance holds the loop up,
    and a loop that is held up delays no heartbeat. The methods of a listener may be `def` or `async def`;
    they run on the loop, and may await the consumer, but not `poll` or `consume`.

    A `poll` or `consume` that is cancelled loses nothing: what it had read already is read again. Any loop may
    use the consumer, one at a time; a listener's methods run on the one that called.

    Args:
        settings: as for `GroupConsumer`; or an existing consumer, which this object then owns.
        keywords: the same as keywords.

    Raises:
        ConfigError: a setting is unknown, missing or wrong.
    """

    @overload
    def __init__(
        self,
        settings: Mapping[str, Any] | ConsumerConfig | GroupConsumer | None = None,
        /,
        **keywords: "Unpack[ConsumerSettings]",
    ) -> None: ...

    @overload
    def __init__(
        self,
        settings: Mapping[str, Any] | ConsumerConfig | GroupConsumer | None = None,
        /,
        **keywords: Any,  # of librdkafka
    ) -> None: ...

    def __init__(
        self,
        settings: Mapping[str, Any] | ConsumerConfig | GroupConsumer | None = None,
        /,
        **keywords: Any,
    ) -> None:
        if isinstance(settings, GroupConsumer):
            self._consumer = settings
        else:
            self._consumer = GroupConsumer(settings, **keywords)
        self._thread = JobThread("groupsdk-consumer")
        # one that is dropped without close() must not leave its thread behind
        weakref.finalize(self, self._thread.end)
        self._closed = False
        self._ending = False
        """Nobody waits for records any more."""

    async def subscribe(
        self, topics: TopicLike | Iterable[TopicLike], *, listener: object | None = None
    ) -> None:
        """Subscribe to topics, in place of the previous subscription; they are read from the next `poll` on.

        Args:
            topics: as for `GroupConsumer.subscribe`.
            listener: receives partitions; see `RebalanceListener`. Its methods may be `def` or `async def`, and run on the
                event loop.

        Raises:
            ConfigError: a topic is neither a string nor a pattern, or a method of the listener cannot be called with
                one argument.
        """
        if listener is not None:
            check_listener(listener, may_await=True)
        on_loop = None if listener is None else _LoopListener(listener, self._thread)
        await self._run(partial(self._consumer.subscribe, topics, listener=on_loop))

    async def poll(self, timeout: float | None = None) -> Message | None:
        """Return the next record, or a message that carries an error of librdkafka.

        Args:
            timeout: the longest wait in seconds; None or negative for no limit.

        Returns:
            None if there was no record in time, or the consumer was woken or closed.

        Raises:
            GroupSdkError: the membership has failed.
            ConcurrentUseError: it is called within a listener.
            Exception: the exception that the listener raised.
        """
        reads = self._consumer.reads
        batch = await self._read(lambda given_up: _listed(reads.poll(timeout, given_up)))
        return batch[0] if batch else None

    async def consume(self, num_messages: int = 1, timeout: float | None = None) -> list[Message]:
        """Return up to `num_messages` records; waits as `GroupConsumer.consume` does.

        Args:
            num_messages: the most records to return, from 0 to 1,000,000.
            timeout: the longest wait for the first one in seconds; None or negative for no limit.

        Raises:
            ValueError: `num_messages` is out of bounds.
            GroupSdkError: the membership has failed.
            ConcurrentUseError: it is called within a listener.
            Exception: the exception that the listener raised.
        """
        reads = self._consumer.reads
        return await self._read(lambda given_up: reads.consume(num_messages, timeout, given_up))

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Yield records until the consumer is closed or woken.

        Raises:
            KafkaException: an error of librdkafka's.
        """
        while not self._closed:
            message = await self.poll()
            if message is None:
                return
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            yield message

    async def commit(
        self,
        message: Message | None = None,
        offsets: Sequence[NativePartition] | None = None,
        *,
        asynchronous: bool = False,
        callback: CommitCallback | None = None,
        timeout: float | None = None,
    ) -> list[NativePartition]:
        """Commit offsets; unlike `GroupConsumer.commit`, wait until they are stored, unless told otherwise.

        If it is cancelled, the commit continues in the background, and the consumer can be used at once.

        Args:
            message: the record that was processed last: commits the offset after it.
            offsets: partitions with the offset to read next. Without both: the stored offsets, or the positions.
            asynchronous: whether to return at once; `callback` is called on the loop, during a later `poll`.
            callback: takes the error or None, and the offsets.
            timeout: seconds to wait at most for a synchronous one; None: default.api.timeout.ms.
        """
        loop = asyncio.get_running_loop()

        def on_loop(error: GroupSdkError | None, offsets: Offsets) -> None:
            if callback is not None:
                with suppress(RuntimeError):  # the loop is closed, and nobody waits
                    loop.call_soon_threadsafe(callback, error, offsets)

        commit = partial(
            self._consumer.commit,
            message,
            offsets,
            asynchronous=asynchronous,
            callback=None if callback is None else on_loop,
            timeout=timeout,
        )
        return await self._run(commit)

    async def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Commit, revoke all partitions and leave the group. Idempotent; a listener may call it.

        Args:
            timeout: the longest wait in seconds.
            operation: whether to leave the group; by default a static member stays in it (KIP-1092).
        """
        if self._closed or self._thread.forked:
            return
        self._closed = self._ending = True
        self._consumer.reads.nudge()
        try:
            await self._do(partial(self._consumer.close, timeout, operation))
        finally:
            self._thread.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not self._closed and not self._thread.forked:
            self._ending = True  # or a read of another task would have to end by itself first
            self._consumer.reads.nudge()
            with suppress(GroupSdkError):  # closing is refused for the same reason
                await self.give_back()
        await self.close()

    @override
    def __repr__(self) -> str:
        return f"Async{self._consumer!r}"

    async def _read(self, read: Callable[[Callable[[], bool]], list[Message]]) -> list[Message]:
        self._check_open()
        callback = _CALLBACK.get()
        if callback is not None and callback.thread is self._thread and not callback.ended:
            raise ConcurrentUseError("a listener may use its consumer, but not poll it")
        reading: _Outcome[list[Message]] = _Outcome(loop=asyncio.get_running_loop())

        def given_up() -> bool:
            return reading.void or self._ending

        def work() -> list[Message]:
            # ending meanwhile: a read that waited behind another one was not begun
            reading.result_there = [] if self._ending else read(given_up)
            if reading.void:  # now: a commit may be next
                self._give_back(reading)
            return reading.result_there or []

        # Behind a listener that runs: that of a read that was cancelled meanwhile, or of another task's.
        self._put(reading, work, within=False)
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            reading.void = True
            if reading.begun:
                if not reading.ended:
                    self._consumer.reads.nudge()
                # it may have ended just before
                self._thread.put(reading.get_loop(), lambda: self._give_back(reading))
            raise

    def _give_back(self, reading: "_Outcome[list[Message]]") -> None:
        batch, reading.result_there = reading.result_there, None
        first = first_offsets(batch or ())
        for where in first.keys() & self._consumer.assignment():
            self._consumer.seek(NativePartition(*where, first[where]))

    @override
    async def _run(self, work: Callable[[], T]) -> T:
        self._check_open()
        given_up: Future[None] = Future()
        try:
            return await self._do(partial(self._consumer.call_until, given_up, work))
        except asyncio.CancelledError:
            # the thread is for others now; what has been asked goes on
            given_up.set_result(None)
            raise

    async def _do(self, work: Callable[[], T]) -> T:
        return await asyncio.shield(self._start(work))

    def _start(self, work: Callable[[], T]) -> "_Outcome[T]":
        """Start a job on the consumer's thread."""
        outcome: _Outcome[T] = _Outcome(loop=asyncio.get_running_loop())
        self._put(outcome, work)
        return outcome

    def _put(self, outcome: "_Outcome[T]", work: Callable[[], T], *, within: bool = True) -> None:
        self._thread.put(outcome.get_loop(), lambda: outcome.run(work), within=within)

    def _check_open(self) -> None:
        if self._closed:
            raise MemberClosedError("the consumer is closed")


class _Outcome(asyncio.Future[T]):
    void = False
    """Nobody wants it any more: it is not begun, if it is not yet."""
    begun = False
    ended = False
    result_there: T | None = None
    """What a read has taken and nobody has been given back, for the consumer's thread itself."""

    def run(self, work: Callable[[], T]) -> None:
        """Do the work; on the consumer's thread."""
        self.begun = True  # first: whoever makes it void looks at this afterwards
        if self.void:
            return
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001  # goes to whoever awaits it
            self._tell(partial(self._fail, error))
        else:
            self._tell(partial(self._succeed, result))
        finally:
            self.ended = True

    def _tell(self, what: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            self.get_loop().call_soon_threadsafe(what)

    def _succeed(self, result: T) -> None:
        if not self.done():
            self.set_result(result)

    def _fail(self, error: BaseException) -> None:
        if not self.done():
            self.set_exception(error)
            self.exception()  # whoever asked may have been cancelled


class _LoopListener:
    """Calls a listener's methods on the loop, while the consumer's thread goes on serving jobs."""

    def __init__(self, listener: object, thread: JobThread) -> None:
        self._listener = listener
        self._thread = thread

    def __getattr__(self, name: str) -> Callable[[object], None]:
        method = getattr(self._listener, name)  # AttributeError where it is left out

        def call(argument: object) -> None:
            loop = self._thread.loop
            assert loop is not None, "listeners are called within the consumer's own calls"
            callback = _Callback(self._thread)
            running = asyncio.run_coroutine_threadsafe(_awaited(method, argument, callback), loop)
            self._thread.serve_until_done(running, loop)
            if running.cancelled():  # `result` would raise another class of that name
                raise asyncio.CancelledError
            running.result()

        return call


class _Callback:
    """A call to a listener's method, made on the loop."""

    def __init__(self, thread: JobThread) -> None:
        self.thread = thread
        self.ended = False


_CALLBACK: ContextVar[_Callback | None] = ContextVar("groupsdk_listener_call", default=None)
"""The call of a listener's method that a task is part of: a read within it would wait for itself."""


async def _awaited(
    method: Callable[[object], Awaitable[object] | object], argument: object, callback: _Callback
) -> None:
    _CALLBACK.set(callback)
    try:
        await awaited(method(argument))
    finally:
        callback.ended = True


def _listed(message: Message | None) -> list[Message]:
    return [] if message is None else [message]
