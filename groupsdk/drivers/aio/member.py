"""A member that a task of the user's event loop drives: `AsyncGroupMember`, and `AsyncAbstractCoordinator` to subclass."""

import weakref
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from groupsdk.assignment import TopicPartition
from groupsdk.clock import Clock, Deadline
from groupsdk.coordinator import AsyncGroupCallbacks, Protocols, awaited
from groupsdk.drivers.caller import Await, Run, checked_timeout_ms, run_call
from groupsdk.drivers.engine_handle import Drive, EngineHandle, Finish, Pause, open_host
from groupsdk.drivers.hosts.host import OpenHost
from groupsdk.drivers.interface import (
    NO_PROTOCOL_TYPE,
    NOT_CREATED,
    CoordinatorInterface,
    GroupMemberInterface,
    check_protocol_type,
)
from groupsdk.drivers.one_thread import busy_text, nested_text
from groupsdk.errors import ConcurrentUseError
from groupsdk.lazy_imports import override
from groupsdk.member.actions import Call
from groupsdk.member.events import CallerEvent
from groupsdk.settings.config import MemberConfig
from groupsdk.types import (
    GroupDescription,
    GroupMembers,
    GroupMembershipOperation,
    OffsetAndMetadata,
)


if TYPE_CHECKING:
    from groupsdk.drivers.group_calls import Steps
    from groupsdk.settings.keywords import MemberSettings


T = TypeVar("T")

# asyncio is imported where it is used: users of the thread API do not pay for it.

_drives: ContextVar[tuple[object, ...]] = ContextVar("groupsdk_drives", default=())
"""The calls that the current code runs inside of; tasks that a callback starts inherit it."""


class AsyncGroupMember(GroupMemberInterface):
    """One member of a group, driven from a task; see `GroupMember` for everything in common.

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
        self._callbacks = callbacks
        self._groupsdk_handle = EngineHandle(config, clock, open_host)
        self._groupsdk_handle.end_with(self)
        self._driver: _Driver | None = None

    @override
    async def ensure_active_group(self, timeout: float | None = None) -> bool:
        timeout_ms = checked_timeout_ms(timeout)
        with self._caller():
            return await self._drive(
                self._groupsdk_handle.begin(timeout_ms, self._groupsdk_handle.active)
            )

    @override
    async def poll(self, timeout: float = 0.0) -> bool:
        import asyncio

        timeout_ms = checked_timeout_ms(timeout)
        if timeout_ms == 0 and self._groupsdk_handle.quiet():
            await asyncio.sleep(0)  # a loop of polls must let others run
            return True
        with self._caller():
            await self._drive(
                self._groupsdk_handle.begin(timeout_ms, self._groupsdk_handle.delivery())
            )
            return self._groupsdk_handle.active_now()

    @override
    async def leave_group(self, reason: str) -> None:
        with self._caller():
            self._groupsdk_handle.check_usable()
            if self._groupsdk_handle.host is None:
                return
            await self._leave_prepare()
            lag = self._groupsdk_handle.leave(reason)
            while (pause := lag()) is not None:
                await self._wait(pause)

    @override
    async def commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float | None = 30.0
    ) -> None:
        await self._call(self._groupsdk_handle.group_calls().commit(offsets, timeout))

    @override
    async def committed_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = 30.0
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return await self._call(self._groupsdk_handle.group_calls().committed(partitions, timeout))

    @override
    async def describe_group(self, timeout: float | None = 30.0) -> GroupDescription:
        return await self._call(self._groupsdk_handle.group_calls().describe(timeout))

    @override
    async def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        import asyncio

        if self._groupsdk_handle.closed or self._groupsdk_handle.forked:
            return
        deadline = Deadline(self._groupsdk_handle.clock, checked_timeout_ms(timeout))
        operation = GroupMembershipOperation(operation)
        with self._caller(reentrant=True):
            host = self._groupsdk_handle.shut()
            cancelled = False
            try:
                if host is not None:
                    await self._leave_prepare()
            except asyncio.CancelledError:
                cancelled = True
                raise
            finally:
                timeout_ms = self._groupsdk_handle.end(host, operation, deadline)
                if host is not None and not cancelled and not await _done(host.ended, timeout_ms):
                    host.abort()
                    await _done(host.ended, 1_000)

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
        while not isinstance(step := self._groupsdk_handle.next_step(drive), Finish):
            if isinstance(step, Run):
                await self._run(step.call)
            else:
                await self._wait(step)
        return step.reached

    async def _wait(self, pause: Pause) -> None:
        newer = _Signal()
        self._groupsdk_handle.mailbox.listen(newer.set)
        try:
            # looked at after listening, so that no publication is missed
            if self._groupsdk_handle.mailbox.version == pause.version:
                await newer.wait(pause.timeout_ms)
        finally:
            self._groupsdk_handle.mailbox.forget(newer.set)

    async def _run(self, call: Call) -> None:
        try:
            answer = await self._answer(run_call(call, self._callbacks))
        except BaseException as error:
            self._groupsdk_handle.failed(call, error)
            raise
        self._groupsdk_handle.answered(call, answer)

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
            value = await awaited(ask())
            if self._groupsdk_handle.closed:  # by the callback; nothing more is wanted of it
                return None

    async def _leave_prepare(self) -> None:
        prepare = getattr(self._callbacks, "on_leave_prepare", None)
        if prepare is not None:
            await awaited(prepare())

    @contextmanager
    def _caller(self, *, reentrant: bool = False) -> Iterator[None]:
        outer = self._driver
        # one whose loop is closed never goes on, and has not ended before the garbage collector finds it
        if outer is not None and not outer.loop.is_closed():
            if outer not in _drives.get():
                raise ConcurrentUseError(busy_text("task", "member"))
            if not reentrant:
                raise ConcurrentUseError(nested_text("member"))
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

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Driver:
    """A call that drives the member."""

    def __init__(self) -> None:
        import asyncio

        self.loop = asyncio.get_running_loop()


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
        """Wait until woken, or until the timeout."""
        import asyncio

        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                await self._event.wait()


async def _done(future: Future[Any], timeout_ms: int) -> bool:
    """Wait for a future of another thread; return whether it is done."""
    done = _Signal()
    future.add_done_callback(lambda _: done.set())
    await done.wait(timeout_ms)
    return future.done()


class AsyncAbstractCoordinator(AsyncGroupCallbacks, CoordinatorInterface):
    """`AbstractCoordinator` for asyncio: subclass it and fill in four methods.

    Yours: `protocol_type`, `metadata`, `perform_assignment` and `on_join_complete`; if you need them also
    `on_join_prepare`, `on_leave_prepare` and `on_assignment_skipped`. Each method may be a `def` or an
    `async def`. They run inside `ensure_active_group`, `poll`, `leave_group` and `close`, in the task that
    awaits these.

    The heartbeat never runs on your event loop: blocking the loop delays it by nothing, and only
    max.poll.interval.ms bounds how long you may stay away from `poll`.

    One task at a time drives the member. What is not awaited may be called from any task and any thread.

    One that is dropped without `close` gives a `ResourceWarning`, and leaves its group then.

    Args:
        settings: Kafka's keys, e.g. ``{"bootstrap.servers": "...", "group.id": "..."}``, or a `MemberConfig`.
        clock: the time; for tests.
        keywords: the same as keywords, e.g. ``group_id="..."``.

    Raises:
        ConfigError: a setting is unknown, missing or wrong.
    """

    _groupsdk_member: AsyncGroupMember = NOT_CREATED
    protocol_type: str = NO_PROTOCOL_TYPE

    def __init__(
        self,
        settings: Mapping[str, Any] | MemberConfig | None = None,
        /,
        *,
        clock: Clock | None = None,
        **keywords: "Unpack[MemberSettings]",
    ) -> None:
        check_protocol_type(self)
        config = MemberConfig.given(settings, keywords)
        # weakly: a reference cycle ends only when the garbage collector finds it, and the group would wait
        # for a member that was dropped
        self._groupsdk_member = AsyncGroupMember(weakref.proxy(self), config, clock)
        self._groupsdk_handle = self._groupsdk_member._groupsdk_handle  # noqa: SLF001 - of the one member that both are

    # Yours to fill in.

    @override
    @abstractmethod
    def metadata(self) -> Protocols | Awaitable[Protocols]: ...

    @override
    @abstractmethod
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Mapping[str, bytes] | Awaitable[Mapping[str, bytes]]: ...

    @override
    @abstractmethod
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> Awaitable[None] | None: ...

    @override
    def on_join_prepare(self, generation: int, member_id: str) -> Awaitable[None] | None: ...

    @override
    def on_assignment_skipped(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Awaitable[None] | None: ...

    @override
    def on_leave_prepare(self) -> Awaitable[None] | None: ...

    # The library's.

    @override
    async def ensure_active_group(self, timeout: float | None = None) -> bool:
        return await self._groupsdk_member.ensure_active_group(timeout)

    @override
    async def poll(self, timeout: float = 0.0) -> bool:
        return await self._groupsdk_member.poll(timeout)

    @override
    async def leave_group(self, reason: str) -> None:
        await self._groupsdk_member.leave_group(reason)

    @override
    async def commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float | None = 30.0
    ) -> None:
        await self._groupsdk_member.commit_offsets(offsets, timeout)

    @override
    async def committed_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = 30.0
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return await self._groupsdk_member.committed_offsets(partitions, timeout)

    @override
    async def describe_group(self, timeout: float | None = 30.0) -> GroupDescription:
        return await self._groupsdk_member.describe_group(timeout)

    @override
    async def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        await self._groupsdk_member.close(timeout, operation)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
