"""Drive one member from the caller's thread."""

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from inspect import isawaitable, iscoroutine
from types import TracebackType
from typing import Any, Self

from groupsdk.clock import Clock, Deadline
from groupsdk.config import MemberConfig
from groupsdk.coordinator import GroupCallbacks
from groupsdk.drivers.caller import Run, checked_timeout_ms, refuse_generator, run_call
from groupsdk.drivers.hosts.host import OpenHost, open_host
from groupsdk.drivers.member_base import METRICS_TIMEOUT_MS, Drive, Finish, MemberBase, Pause
from groupsdk.errors import ConcurrentUseError, EngineError
from groupsdk.membership.actions import Call
from groupsdk.membership.events import CallerEvent
from groupsdk.types import GroupMembershipOperation


class GroupMember(MemberBase):
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
        super().__init__(callbacks, config, clock, open_host)
        self._guard = threading.RLock()
        self._inside = False

    def ensure_active_group(self, timeout: float | None = None) -> bool:
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
            return self._drive(self._begin(timeout_ms, self._active))

    def poll(self, timeout: float = 0.0) -> bool:
        """Show that the caller is alive, and run the callbacks that are due.

        Call it at least every max.poll.interval.ms, or the member leaves by itself: a member whose loop is
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
        timeout_ms = checked_timeout_ms(timeout)
        if timeout_ms == 0 and self._quiet():
            return True
        with self._caller():
            self._drive(self._begin(timeout_ms, self._delivery()))
            return self._active(self._mailbox.read().view)

    def leave_group(self, reason: str) -> None:
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
            self._leave_prepare()
            lag = self._leave(reason)
            while (pause := lag()) is not None:
                self._wait(pause)

    def metrics(self) -> dict[str, float]:
        """Return Kafka's coordinator metrics under Kafka's names; empty before the first use.

        Raises:
            EngineError: the engine does not answer.
        """
        answer = self._ask_metrics()
        if answer is None:
            return {}
        try:
            return dict(answer.result(METRICS_TIMEOUT_MS / 1000))
        except TimeoutError:
            raise EngineError(f"no answer from the engine in {METRICS_TIMEOUT_MS} ms") from None

    def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Leave the group (or not, see `operation`), and end the heartbeat. Harmless when repeated.

        May be called from within a callback. While another thread drives the member, have that one end first: set
        a flag of yours, call `wakeup`, join the thread, then close.

        Args:
            timeout: seconds to wait at most for the coordinator's answer; the member is closed in any case.
            operation: whether to leave (KIP-1092).

        Raises:
            ConcurrentUseError: another thread is driving the member, which stays open.
            Exception: whatever `on_leave_prepare` raised; the member is closed all the same.
        """
        if self._closed or self._forked:
            return
        deadline = Deadline(self._clock, checked_timeout_ms(timeout))
        operation = GroupMembershipOperation(operation)
        with self._caller(reentrant=True):
            host = self._shut()
            try:
                if host is not None:
                    self._leave_prepare()
            finally:
                timeout_ms = self._end(host, operation, deadline)
                if host is not None:
                    with suppress(TimeoutError):
                        host.ended.result(timeout_ms / 1000)
                    if not host.ended.done():
                        host.abort()
                        with suppress(TimeoutError):
                            host.ended.result(1)

    # Details.

    def _drive(self, drive: Drive) -> bool:
        while not isinstance(step := self._next(drive), Finish):
            if isinstance(step, Run):
                self._run(step.call)
            else:
                self._wait(step)
        return step.reached

    def _wait(self, pause: Pause) -> None:
        self._mailbox.wait_newer(pause.version, pause.timeout_ms)

    def _run(self, call: Call) -> None:
        try:
            answer = self._answer(run_call(call, self._callbacks))
        except BaseException as error:
            self._failed(call, error)
            raise
        self._answered(call, answer)

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
            if self._closed:  # by the callback; nothing more is wanted of it
                return None

    def _leave_prepare(self) -> None:
        prepare = getattr(self._callbacks, "on_leave_prepare", None)
        if prepare is not None:
            _plain_result(prepare())

    @contextmanager
    def _caller(self, *, reentrant: bool = False) -> Iterator[None]:
        if not self._guard.acquire(blocking=False):
            raise ConcurrentUseError(
                "another thread is using the member; a member has one caller at a time"
                " (wakeup() makes a waiting one return)"
            )
        try:
            if self._inside and not reentrant:
                raise ConcurrentUseError("a callback may close its member, but not drive it")
            outer, self._inside = self._inside, True
            try:
                yield
            finally:
                self._inside = outer
        finally:
            self._guard.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _plain_result(value: object) -> object:
    """Return what a callback returned, unless it would have to be awaited.

    Raises:
        TypeError: it would; left alone, its code would never run and count as done. So would a generator's.
    """
    refuse_generator(value)
    if not isawaitable(value):
        return value
    if iscoroutine(value):
        value.close()
    raise TypeError(
        "the callbacks of AbstractCoordinator and GroupMember must not be `async def`; use"
        " AsyncAbstractCoordinator or AsyncGroupMember"
    )
