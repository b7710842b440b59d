"""Drive one member from the caller's thread."""

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from groupsdk.clock import Clock, Deadline, SystemClock
from groupsdk.config import MemberConfig
from groupsdk.coordinator import GroupCallbacks
from groupsdk.drivers.caller import (
    CallerSide,
    Raise,
    Run,
    checked_plan,
    checked_protocol_type,
    checked_protocols,
    is_active,
    is_idle,
)
from groupsdk.drivers.hosts.host import Host, open_host
from groupsdk.drivers.mailbox import Mailbox
from groupsdk.errors import ConcurrentUseError, EngineError, MemberClosedError
from groupsdk.membership.actions import AssignGroup, Call, CompleteJoin, PrepareJoin
from groupsdk.membership.events import (
    CallerEvent,
    CallFailed,
    CloseRequested,
    GroupAssigned,
    JoinDelivered,
    JoinPrepared,
    LeaveRequested,
    Polled,
    RejoinRequested,
)
from groupsdk.membership.recorder import RebalanceEvent
from groupsdk.membership.view import MemberView
from groupsdk.snapshot import MemberSnapshot
from groupsdk.types import NO_GENERATION, Generation, GroupMembershipOperation


_STOP_GRACE_MS = 1_000
_METRICS_TIMEOUT_MS = 5_000


class GroupMember:
    """One member of a group, driven from the caller's thread.

    The engine (heartbeats, connections) runs on a host of its own and starts with the first call that needs
    it. The user's callbacks run inside `ensure_active_group`, `poll`, `leave_group` and `close`, on the
    thread that calls these, which may be used by one thread at a time. All other methods may be called from
    any thread at any time.

    Args:
        callbacks: what kind of group it is.
        config: the member's settings.
        clock: the time; for tests.
    """

    def __init__(
        self, callbacks: GroupCallbacks, config: MemberConfig, clock: Clock | None = None
    ) -> None:
        self._callbacks = callbacks
        self._config = config
        self._clock = clock or SystemClock()
        self._mailbox = Mailbox()
        self._side = CallerSide()
        self._host: Host | None = None
        self._pid = os.getpid()
        # re-entrant: request_rejoin() may be called by a signal handler of the thread that holds it
        self._post_lock = threading.RLock()
        self._guard = threading.RLock()
        self._inside = False
        self._woken = False
        self._delivered = 0
        self._closed = False
        self._ticked_ms: int | None = None
        # half the poll interval at most between two signs of life, and not one for every poll(0)
        self._tick_ms = max(1, config.poll_interval_ms // 20)

    # Driving.

    def ensure_active_group(self, timeout: float | None = None) -> bool:
        """Join, and wait until the member has taken up its assignment in a stable generation.

        Finds the coordinator, runs the callbacks of a rebalance where one is due, and returns.

        Args:
            timeout: seconds to wait at most; None: for ever. What has been reached by then goes on in the
                background and in the next call.

        Returns:
            Whether the member is active; False when the time was over, or `wakeup` was called.

        Raises:
            GroupSdkError: what went wrong, in this call or in the background since the last one.
            Exception: whatever a callback raised.
        """
        with self._caller():
            return self._drive(timeout, self._active)

    def poll(self, timeout: float = 0.0) -> bool:
        """Show that the caller is alive, and run the callbacks that are due.

        Call it at least every max.poll.interval.ms, or the member leaves by itself: a member whose loop is
        stuck must not keep its work. Returns early when a new assignment was taken up.

        Args:
            timeout: seconds to wait at most for something to do.

        Returns:
            Whether the member is active at the end.

        Raises:
            GroupSdkError: what went wrong, in this call or in the background since the last one.
            Exception: whatever a callback raised.
        """
        now_ms = self._clock.now_ms()
        if timeout <= 0 and self._quiet(now_ms):
            return is_active(self._mailbox.read().view, now_ms)
        with self._caller():
            before = self._delivered
            self._drive(timeout, lambda view: self._delivered != before and self._active(view))
            return self._active(self._mailbox.read().view)

    def request_rejoin(self, reason: str) -> None:
        """Ask for a rebalance, for example since the metadata has changed; happens at the next poll.

        Args:
            reason: shown in the broker's log (KIP-800), in `events` and in the log.
        """
        self._post(RejoinRequested(reason))

    def leave_group(self, reason: str) -> None:
        """Leave the group now, whether static or not; the next `poll` or `ensure_active_group` joins again."""
        with self._caller():
            if self._host is not None:
                self._callbacks.on_leave_prepare()
                self._post(LeaveRequested(reason))

    def wakeup(self) -> None:
        """Make a waiting `poll` or `ensure_active_group` of another thread return soon, once."""
        self._woken = True
        self._mailbox.wake()

    def close(
        self,
        timeout: float = 30.0,
        operation: GroupMembershipOperation = GroupMembershipOperation.DEFAULT,
    ) -> None:
        """Leave the group (or not, see `operation`), and end the heartbeat. Harmless when repeated.

        May be called from within a callback.

        Args:
            timeout: seconds to wait at most for the coordinator's answer; the member is closed in any case.
            operation: whether to leave (KIP-1092).

        Raises:
            Exception: whatever `on_leave_prepare` raised; the member is closed all the same.
        """
        if self._closed:
            return
        with self._caller(reentrant=True):
            self._closed = True
            if self._host is None:
                return
            timeout_ms = max(0, int(timeout * 1000))
            deadline = Deadline(self._clock, timeout_ms)
            try:
                self._callbacks.on_leave_prepare()
            finally:
                left_ms = deadline.remaining_ms(timeout_ms)
                self._host.post(CloseRequested(operation, left_ms, "the member is being closed"))
                self._host.stop(left_ms + _STOP_GRACE_MS)
                self._finalizer.detach()
                self._mailbox.wake()

    # Reading.

    def generation(self) -> Generation:
        """Return the current generation, stable or not."""
        view = self._mailbox.read().view
        return NO_GENERATION if view is None or self._closed else view.generation

    def generation_if_stable(self) -> Generation | None:
        """Return the current generation if it is stable and the session is certainly alive, else None.

        What is written elsewhere with this generation as a fencing token cannot come from a member that
        should know that it is out of the group.
        """
        snapshot = self.snapshot()
        return snapshot.generation if snapshot.stable else None

    def member_id(self) -> str:
        """Return the current member id; "" where there is none."""
        return self.generation().member_id

    def snapshot(self) -> MemberSnapshot:
        """Return generation, member id, state and assignment epoch, read at once."""
        view = None if self._closed else self._mailbox.read().view
        return MemberSnapshot.of(self._config, view, self._clock.now_ms())

    def metrics(self) -> dict[str, float]:
        """Return Kafka's coordinator metrics under Kafka's names; empty before the first use.

        Raises:
            EngineError: the engine does not answer.
        """
        return {} if self._host is None else dict(self._host.metrics(_METRICS_TIMEOUT_MS))

    def events(self) -> tuple[RebalanceEvent, ...]:
        """Return the last 100 rebalances, oldest first: why, how long each phase took, how it ended."""
        view = self._mailbox.read().view
        return () if view is None else view.events

    # Details.

    def _drive(self, timeout: float | None, done: Callable[[MemberView | None], bool]) -> bool:
        deadline = Deadline(self._clock, None if timeout is None else max(0, int(timeout * 1000)))
        self._tick()
        while not self._closed:
            publication = self._mailbox.read()
            step = self._side.step(publication, self._clock.now_ms())
            if isinstance(step, Raise):
                if step.report is not None:
                    self._post(step.report)
                raise step.error
            if isinstance(step, Run):
                self._run(step.call)
                self._tick()
                continue
            if step.settled and done(publication.view):
                return True
            if self._take_wakeup() or (step.settled and deadline.expired):
                return False
            wait_ms = deadline.remaining_ms(self._tick_ms) if step.settled else self._tick_ms
            self._mailbox.wait_newer(publication.version, wait_ms)
            self._tick_if_due()
        return False

    def _run(self, call: Call) -> None:
        try:
            answer = self._answer(call)
        except BaseException as error:
            if not isinstance(call, CompleteJoin):
                self._side.answered(call)
            if not self._closed:
                self._post(CallFailed(call.call_id, type(error).__name__))
            raise
        self._side.answered(call)
        self._delivered += isinstance(call, CompleteJoin)
        if not self._closed:
            self._post(answer)

    def _answer(self, call: Call) -> CallerEvent:
        user = self._callbacks
        generation = call.generation
        match call:
            case PrepareJoin():
                if call.run_callback:
                    user.on_join_prepare(generation.generation_id, generation.member_id)
                protocol_type = checked_protocol_type(user.protocol_type)
                return JoinPrepared(call.call_id, protocol_type, checked_protocols(user.metadata()))
            case AssignGroup():
                if call.skip:
                    return GroupAssigned(call.call_id, {})
                plan = user.perform_assignment(call.leader_id, call.protocol_name, call.members)
                return GroupAssigned(call.call_id, checked_plan(plan, call.members))
            case CompleteJoin():
                user.on_join_complete(
                    generation.generation_id,
                    generation.member_id,
                    call.protocol_name,
                    call.assignment,
                )
                return JoinDelivered(call.call_id)

    def _active(self, view: MemberView | None) -> bool:
        return not self._closed and is_active(view, self._clock.now_ms())

    def _quiet(self, now_ms: int) -> bool:
        """Tell whether a poll would neither do anything nor be needed as a sign of life."""
        return (
            self._ticked_ms is not None
            and now_ms - self._ticked_ms < self._tick_ms
            and not self._closed
            and is_idle(self._mailbox.read().view)
            and self._mailbox.read().error is None
        )

    def _tick(self) -> None:
        self._ticked_ms = self._clock.now_ms()
        self._post(Polled())

    def _tick_if_due(self) -> None:
        if self._ticked_ms is None or self._clock.now_ms() - self._ticked_ms >= self._tick_ms:
            self._tick()

    def _take_wakeup(self) -> bool:
        woken, self._woken = self._woken, False
        return woken

    def _post(self, event: CallerEvent) -> None:
        if self._closed:
            raise MemberClosedError("the member is closed")
        if os.getpid() != self._pid:
            raise EngineError(
                "the process has forked since the member was made, and its background thread stayed"
                " in the parent; make members after forking"
            )
        with self._post_lock:
            host = self._host or self._start()
            self._side.posted()
            host.post(event)

    def _start(self) -> Host:
        self._host = host = open_host(self._config, self._clock, self._mailbox)
        host.start()
        # a member that is dropped without close() must not heartbeat for ever
        self._finalizer = weakref.finalize(self, host.stop, 0)
        return host

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
