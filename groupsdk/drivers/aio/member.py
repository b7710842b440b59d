"""Drive one member from a task of the user's event loop."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from groupsdk.assignment import TopicPartition
from groupsdk.clock import Clock, Deadline
from groupsdk.config import MemberConfig
from groupsdk.coordinator import AsyncGroupCallbacks
from groupsdk.drivers.caller import Await, Run, checked_timeout_ms, refuse_generator, run_call
from groupsdk.drivers.hosts.host import OpenHost, open_host
from groupsdk.drivers.member_base import Drive, Finish, MemberBase, Pause
from groupsdk.errors import ConcurrentUseError
from groupsdk.membership.actions import Call
from groupsdk.membership.events import CallerEvent
from groupsdk.types import GroupDescription, GroupMembershipOperation, OffsetAndMetadata


if TYPE_CHECKING:
    from groupsdk.drivers.group_calls import Steps

T = TypeVar("T")

# asyncio is imported where it is used: whoever uses the library from threads need not pay for it.

_drives: ContextVar[tuple[object, ...]] = ContextVar("groupsdk_drives", default=())
"""The calls that the current code runs inside of; tasks that a callback starts inherit it."""


class AsyncGroupMember(MemberBase):
    """One member of a group, driven from a task; see `GroupMember` for all that is the same.

    The engine (heartbeats, connections) runs on a host of its own, never on the user's loop: blocking that
    loop delays no heartbeat. The user's callbacks, `def` or `async def`, run inside
    `ensure_active_group`, `poll`, `leave_group` and `close`, in the task that awaits these; one task at a
    time may do so. All that is not awaited may be called from any thread at any time.

    When a call is cancelled, also in the middle of an `async def` callback, the member goes on as if the
    callback had raised: `on_join_complete` is called again with the same bytes at the next poll, anything
    else is tried again in another join.

    Args:
        callbacks: what kind of group it is.
        config: the member's settings.
        clock: the time; for tests.
        open_host: makes what the engine runs on; for tests.
    """

    def __init__(
        self,
        callbacks: AsyncGroupCallbacks,
        config: MemberConfig,
        clock: Clock | None = None,
        open_host: OpenHost = open_host,
    ) -> None:
        super().__init__(callbacks, config, clock, open_host)
        self._driver: _Driver | None = None

    async def ensure_active_group(self, timeout: float | None = None) -> bool:
        """Join, and wait until the member has taken up its assignment in a stable generation.

        Finds the coordinator, runs the callbacks of a rebalance where one is due, and returns.

        Args:
            timeout: seconds to wait at most, and one more where the engine does not answer; None: for ever.
                What has been reached by then goes on in the background and in the next call.

        Returns:
            Whether the member is active; False when the time was over, or `wakeup` was called.

        Raises:
            GroupSdkError: what went wrong, in this call or in the background since the last one.
            Exception: whatever a callback raised.
        """
        timeout_ms = checked_timeout_ms(timeout)
        with self._caller():
            return await self._drive(self._begin(timeout_ms, self._active))

    async def poll(self, timeout: float = 0.0) -> bool:
        """Show that the caller is alive, and run the callbacks that are due.

        Await it at least every max.poll.interval.ms, or the member leaves by itself: a member whose loop is
        stuck must not keep its work. Returns early when a new assignment was taken up.

        Args:
            timeout: seconds to wait at most for something to do, and one more where the engine does not
                answer.

        Returns:
            Whether the member is active at the end.

        Raises:
            GroupSdkError: what went wrong, in this call or in the background since the last one.
            Exception: whatever a callback raised.
        """
        import asyncio

        timeout_ms = checked_timeout_ms(timeout)
        if timeout_ms == 0 and self._quiet():
            await asyncio.sleep(0)  # a loop of polls must let others run
            return True
        with self._caller():
            await self._drive(self._begin(timeout_ms, self._delivery()))
            return self._active_now()

    async def leave_group(self, reason: str) -> None:
        """Leave the group now, whether static or not; the next `poll` or `ensure_active_group` joins again.

        Args:
            reason: shown in the broker's log (KIP-800), in `events` and in the log.

        Raises:
            MemberClosedError: the member is closed.
            Exception: whatever `on_leave_prepare` raised; then the member has not left.
        """
        with self._caller():
            self._check_usable()
            if self._host is None:
                return
            await self._leave_prepare()
            lag = self._leave(reason)
            while (pause := lag()) is not None:
                await self._wait(pause)

    async def commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float | None = 30.0
    ) -> None:
        """Store offsets in the group under this member's generation, which the coordinator checks (OffsetCommit).

        The generation is that of the beginning of the call: what was worked out under it is never committed
        under a later one. May be called by any thread, and in `on_join_prepare`, `on_join_complete` and
        `on_leave_prepare`.

        Args:
            offsets: partition to offset, of topics that the cluster has; what they mean is up to the group.
            timeout: seconds to try, retriable errors included; None: for ever.

        Raises:
            RebalanceInProgressError: the group rebalances; poll, then commit what is still owned.
            CommitFailedError: the member is out of the group, and others may have its work.
            FencedInstanceIdError: another process has taken the group.instance.id.
            BrokerError: the coordinator refuses for another reason.
            NetworkError: no answer in time.
            MemberClosedError: the member is closed.
        """
        await self._call(self._group_calls().commit(offsets, timeout))

    async def committed_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = 30.0
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the stored offset of each partition, None where there is none (OffsetFetch).

        Offsets that are part of an open transaction are waited for (KIP-447). Needs no membership.

        Args:
            partitions: which ones.
            timeout: seconds to try, retriable errors included; None: for ever.

        Raises:
            RebalanceInProgressError: a join is parked on the connection; poll first.
            BrokerError: the coordinator refuses.
            NetworkError: no answer in time.
            MemberClosedError: the member is closed.
        """
        return await self._call(self._group_calls().committed(partitions, timeout))

    async def describe_group(self, timeout: float | None = 30.0) -> GroupDescription:
        """Return the group's state and members, as its coordinator tells (DescribeGroups).

        Args:
            timeout: seconds to try, retriable errors included; None: for ever.

        Raises:
            RebalanceInProgressError: a join is parked on the connection; poll first.
            GroupAuthorizationError: the principal may not describe the group.
            BrokerError: the coordinator refuses for another reason.
            NetworkError: no answer in time.
            MemberClosedError: the member is closed.
        """
        return await self._call(self._group_calls().describe(timeout))

    async def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Leave the group (or not, see `operation`), and end the heartbeat. Harmless when repeated.

        May be called from within a callback. Where it is cancelled, the member is closed all the same, and
        leaves in the background.

        Args:
            timeout: seconds to wait at most for the coordinator's answer; the member is closed in any case.
            operation: whether to leave (KIP-1092).

        Raises:
            Exception: whatever `on_leave_prepare` raised; the member is closed all the same.
        """
        import asyncio

        if self._closed or self._forked:
            return
        deadline = Deadline(self._clock, checked_timeout_ms(timeout))
        operation = GroupMembershipOperation(operation)
        with self._caller(reentrant=True):
            host = self._shut()
            cancelled = False
            try:
                if host is not None:
                    await self._leave_prepare()
            except asyncio.CancelledError:
                cancelled = True
                raise
            finally:
                timeout_ms = self._end(host, operation, deadline)
                if host is not None and not cancelled and not await _done(host.ended, timeout_ms):
                    host.abort()
                    await _done(host.ended, 1_000)

    # Details.

    async def _call(self, steps: "Steps[T]") -> T:
        import asyncio

        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Await):
                await _done(step.answer, step.timeout_ms)
            else:
                await asyncio.sleep(step.delay_ms / 1000)

    async def _drive(self, drive: Drive) -> bool:
        while not isinstance(step := self._next(drive), Finish):
            if isinstance(step, Run):
                await self._run(step.call)
            else:
                await self._wait(step)
        return step.reached

    async def _wait(self, pause: Pause) -> None:
        newer = _Signal()
        self._mailbox.listen(newer.set)
        try:
            # looked at after listening, so that no publication is missed
            if self._mailbox.version == pause.version:
                await newer.wait(pause.timeout_ms)
        finally:
            self._mailbox.forget(newer.set)

    async def _run(self, call: Call) -> None:
        try:
            answer = await self._answer(run_call(call, self._callbacks))
        except BaseException as error:
            self._failed(call, error)
            raise
        self._answered(call, answer)

    async def _answer(
        self, running: Generator[Callable[[], object], Any, CallerEvent]
    ) -> CallerEvent | None:
        value: object = None
        while True:
            try:
                ask = running.send(value)
            except StopIteration as end:
                answer: CallerEvent = end.value
                return answer
            value = await _result(ask())
            if self._closed:  # by the callback; nothing more is wanted of it
                return None

    async def _leave_prepare(self) -> None:
        prepare = getattr(self._callbacks, "on_leave_prepare", None)
        if prepare is not None:
            await _result(prepare())

    @contextmanager
    def _caller(self, *, reentrant: bool = False) -> Iterator[None]:
        outer = self._driver
        # one whose loop is closed never goes on, and has not ended before the garbage collector finds it
        if outer is not None and not outer.loop.is_closed():
            if outer not in _drives.get():
                raise ConcurrentUseError(
                    "another task is using the member; a member has one caller at a time"
                    " (wakeup() makes a waiting one return)"
                )
            if not reentrant:
                raise ConcurrentUseError("a callback may close its member, but not drive it")
        driver = self._driver = _Driver()
        token = _drives.set((*_drives.get(), driver))
        try:
            yield
        finally:
            if self._driver is driver:
                self._driver = outer
            with suppress(
                ValueError
            ):  # the garbage collector ends it in a context that is not its own
                _drives.reset(token)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


class _Driver:
    """A call that drives the member."""

    def __init__(self) -> None:
        import asyncio

        self.loop = asyncio.get_running_loop()


async def _result(value: object) -> object:
    """Return what a callback returned, or what that came to.

    Raises:
        TypeError: it is a generator, whose code would never run and count as done.
    """
    if isawaitable(value):
        value = await value
    refuse_generator(value)
    return value


class _Signal:
    """Wakes one task from any thread."""

    def __init__(self) -> None:
        import asyncio

        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def set(self) -> None:
        """Wake the task."""
        with suppress(RuntimeError):  # the loop is closed, and the task with it
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, timeout_ms: int) -> None:
        """Wait until it is set, or the time is over."""
        import asyncio

        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                await self._event.wait()


async def _done(future: Future[Any], timeout_ms: int) -> bool:
    """Wait for a future of another thread; tell whether it is done."""
    done = _Signal()
    future.add_done_callback(lambda _: done.set())
    await done.wait(timeout_ms)
    return future.done()
