"""A member that the caller's thread drives: `GroupMember`, and `AbstractCoordinator` to subclass, as in Java."""

import time
import weakref
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent import futures
from contextlib import suppress
from inspect import isawaitable, iscoroutine
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from groupsdk.assignment import TopicPartition
from groupsdk.clock import Clock, Deadline
from groupsdk.coordinator import GroupCallbacks, Protocols, refuse_generator
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
from groupsdk.drivers.one_thread import OneThread, busy_text, nested_text
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


class GroupMember(GroupMemberInterface):
    """One member of a group, driven from the caller's thread.

    The engine (heartbeats, connections) runs on a host of its own and starts with the first call that needs
    it. The user's callbacks run inside `ensure_active_group`, `poll`, `leave_group` and `close`, on the
    thread that calls these, which may be used by one thread at a time. All other methods may be called from
    any thread at any time.

    Args:
        callbacks: what kind of group it is.
        config: the member's settings.
        clock: the time; for tests.
        open_host: makes what the engine runs on; for tests.
    """

    def __init__(
        self,
        callbacks: GroupCallbacks,
        config: MemberConfig,
        clock: Clock | None = None,
        open_host: OpenHost = open_host,
    ) -> None:
        self._callbacks = callbacks
        self._groupsdk_handle = EngineHandle(config, clock, open_host)
        self._groupsdk_handle.end_with(self)
        self._alone = OneThread(busy_text("thread", "member"), nested_text("member"))

    @override
    def ensure_active_group(self, timeout: float | None = None) -> bool:
        timeout_ms = checked_timeout_ms(timeout)
        return self._caller(
            lambda: self._drive(
                self._groupsdk_handle.begin(timeout_ms, self._groupsdk_handle.active)
            )
        )

    @override
    def poll(self, timeout: float = 0.0) -> bool:
        timeout_ms = checked_timeout_ms(timeout)
        if timeout_ms == 0 and self._groupsdk_handle.quiet():
            return True

        def drive() -> bool:
            self._drive(self._groupsdk_handle.begin(timeout_ms, self._groupsdk_handle.delivery()))
            return self._groupsdk_handle.active_now()

        return self._caller(drive)

    def quiet_at(self, now_ms: int) -> bool:
        """Return whether `poll(0)` would do nothing at that time of the member's clock."""
        return self._groupsdk_handle.quiet_at(now_ms)

    @override
    def leave_group(self, reason: str) -> None:

        def leave() -> None:
            self._groupsdk_handle.check_usable()
            if self._groupsdk_handle.host is None:
                return
            self._leave_prepare()
            lag = self._groupsdk_handle.leave(reason)
            while (pause := lag()) is not None:
                self._wait(pause)

        self._caller(leave)

    def give_up_join(self) -> None:
        """Abandon a JoinGroup that is parked at the coordinator, so that `ask` does not wait behind it.

        For requests before leaving, in `on_leave_prepare`: until all members have joined, the coordinator takes
        commits of the generation before. Does nothing where no join waits.
        """
        lag = self._groupsdk_handle.give_up_join()
        while (pause := lag()) is not None:
            self._wait(pause)

    @override
    def commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float | None = 30.0
    ) -> None:
        self._call(self._groupsdk_handle.group_calls().commit(offsets, timeout))

    @override
    def committed_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = 30.0
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return self._call(self._groupsdk_handle.group_calls().committed(partitions, timeout))

    @override
    def describe_group(self, timeout: float | None = 30.0) -> GroupDescription:
        return self._call(self._groupsdk_handle.group_calls().describe(timeout))

    @override
    def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        if self._groupsdk_handle.closed or self._groupsdk_handle.forked:
            return
        deadline = Deadline(self._groupsdk_handle.clock, checked_timeout_ms(timeout))
        operation = GroupMembershipOperation(operation)

        def close() -> None:
            host = self._groupsdk_handle.shut()
            try:
                if host is not None:
                    self._leave_prepare()
            finally:
                timeout_ms = self._groupsdk_handle.end(host, operation, deadline)
                if host is not None:
                    with suppress(TimeoutError):
                        host.ended.result(timeout_ms / 1000)
                    if not host.ended.done():
                        host.abort()
                        with suppress(TimeoutError):
                            host.ended.result(1)

        self._caller(close, within_callbacks=True)

    def _call(self, steps: "Steps[T]") -> T:
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(step, Await):
                futures.wait([step.answer], step.timeout_ms / 1000)
            else:
                time.sleep(step.delay_ms / 1000)

    def _drive(self, drive: Drive) -> bool:
        while not isinstance(step := self._groupsdk_handle.next_step(drive), Finish):
            if isinstance(step, Run):
                self._run(step.call)
            else:
                self._wait(step)
        return step.reached

    def _wait(self, pause: Pause) -> None:
        self._groupsdk_handle.mailbox.wait_newer(pause.version, pause.timeout_ms)

    def _run(self, call: Call) -> None:
        try:
            answer = self._answer(run_call(call, self._callbacks))
        except BaseException as error:
            self._groupsdk_handle.failed(call, error)
            raise
        self._groupsdk_handle.answered(call, answer)

    def _answer(
        self, running: Generator[Callable[[], object], Any, CallerEvent]
    ) -> CallerEvent | None:
        value: object = None
        while True:
            try:
                ask = running.send(value)
            except StopIteration as end:
                answer: CallerEvent = end.value
                return answer
            value = _plain_result(ask())
            if self._groupsdk_handle.closed:  # by the callback; nothing more is wanted of it
                return None

    def _leave_prepare(self) -> None:
        prepare = getattr(self._callbacks, "on_leave_prepare", None)
        if prepare is not None:
            _plain_result(prepare())

    def _caller(self, work: Callable[[], T], *, within_callbacks: bool = False) -> T:
        return self._alone.run(work, driving=True, within_callbacks=within_callbacks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _plain_result(value: object) -> object:
    """Return the result of a callback, unless it is awaitable.

    Raises:
        TypeError: it would; left alone, its code would never run and count as done. So would a generator's.
    """
    refuse_generator(value)
    if not isawaitable(value):
        return value
    if iscoroutine(value):
        value.close()
    name = getattr(value, "__qualname__", "a callback")
    raise TypeError(
        f"{name} must not be `async def`; use AsyncAbstractCoordinator or AsyncGroupMember"
    )


class AbstractCoordinator(GroupCallbacks, CoordinatorInterface):
    """A member of a group of your own kind: subclass it and fill in four methods.

    It mirrors Kafka's `AbstractCoordinator`. Yours: `protocol_type`, `metadata`, `perform_assignment` and
    `on_join_complete`; if you need them also `on_join_prepare`, `on_leave_prepare` and
    `on_assignment_skipped`. They run inside the calls of the driving thread (`ensure_active_group`, `poll`,
    `leave_group`, `close`), never on the heartbeat's, and under no lock.

    Threads: one thread at a time drives the member. `generation`, `generation_if_stable`, `member_id`,
    `snapshot`, `metrics`, `events`, `request_rejoin` and `wakeup` may be called from any.

    One that is dropped without `close` gives a `ResourceWarning`, and leaves its group then.

    Args:
        settings: Kafka's keys, e.g. ``{"bootstrap.servers": "...", "group.id": "..."}``, or a `MemberConfig`.
        clock: the time; for tests.
        keywords: the same as keywords, e.g. ``group_id="..."``.

    Raises:
        ConfigError: a setting is unknown, missing or wrong.
    """

    _groupsdk_member: GroupMember = NOT_CREATED
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
        self._groupsdk_member = GroupMember(weakref.proxy(self), config, clock)
        self._groupsdk_handle = self._groupsdk_member._groupsdk_handle  # noqa: SLF001 - of the one member that both are

    # Yours to fill in.

    @override
    @abstractmethod
    def metadata(self) -> Protocols: ...

    @override
    @abstractmethod
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> Mapping[str, bytes]: ...

    @override
    @abstractmethod
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None: ...

    @override
    def on_join_prepare(self, generation: int, member_id: str) -> None: ...

    @override
    def on_assignment_skipped(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> None: ...

    @override
    def on_leave_prepare(self) -> None: ...

    # The library's.

    @override
    def ensure_active_group(self, timeout: float | None = None) -> bool:
        return self._groupsdk_member.ensure_active_group(timeout)

    @override
    def poll(self, timeout: float = 0.0) -> bool:
        return self._groupsdk_member.poll(timeout)

    @override
    def leave_group(self, reason: str) -> None:
        self._groupsdk_member.leave_group(reason)

    @override
    def commit_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float | None = 30.0
    ) -> None:
        self._groupsdk_member.commit_offsets(offsets, timeout)

    @override
    def committed_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = 30.0
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return self._groupsdk_member.committed_offsets(partitions, timeout)

    @override
    def describe_group(self, timeout: float | None = 30.0) -> GroupDescription:
        return self._groupsdk_member.describe_group(timeout)

    @override
    def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        self._groupsdk_member.close(timeout, operation)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
