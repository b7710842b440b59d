"""The caller's handle on one member: posts events to its engine, reads its views, decides each step."""

import os
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING

from groupsdk.clock import Clock, Deadline, SystemClock, WallClock
from groupsdk.drivers.caller import (
    CallerSide,
    Raise,
    Run,
    checked_reason,
    idle_until_ms,
    is_active,
)
from groupsdk.drivers.hosts.host import Host, Mailbox, OpenHost

# Loaded here, with asyncio, ssl and tenacity, because an importer is about to start a member, and the rest of the group
# may be waiting for that start.
from groupsdk.drivers.hosts.thread import ThreadHost
from groupsdk.drivers.one_thread import CallersLock
from groupsdk.errors import ConfigError, EngineError, MemberClosedError
from groupsdk.lazy_dataclasses import dataclass
from groupsdk.member import events
from groupsdk.member.actions import Call, CompleteJoin
from groupsdk.member.events import CallerEvent
from groupsdk.member.recorder import RebalanceEvent
from groupsdk.member.view import NOT_STARTED, MemberView
from groupsdk.settings.config import MemberConfig
from groupsdk.snapshot import MemberSnapshot
from groupsdk.types import Generation, GroupMembershipOperation


if TYPE_CHECKING:
    from groupsdk.drivers.group_calls import GroupCalls
    from groupsdk.member.requests import CoordinatorRequest
    from groupsdk.wire.schema import Response

METRICS_TIMEOUT_MS = 5_000
"""How long the engine may take to tell its metrics."""

_STOP_GRACE_MS = 1_000  # how long the engine may take to end after the time for leaving is over
_ANSWER_GRACE_MS = 1_000  # how long a call may wait for the engine to react beyond its own timeout
_UNLIMITED_MS = 2**31 - 1
_NEVER_MS = 2**62  # no clock shows it
_OF_MEMBERSHIP = frozenset(
    ("JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "LEAVE_GROUP", "CONSUMER_GROUP_HEARTBEAT")
)
"""The APIs of requests that a member alone sends."""


def open_host(config: MemberConfig, clock: Clock, mailbox: Mailbox) -> Host:
    """Return the host that the configuration asks for, not started."""
    if config.heartbeat == "process":
        from groupsdk.drivers.hosts.process import ProcessHost

        if not isinstance(clock, SystemClock):
            raise ConfigError(
                "heartbeat='process' goes by the machine's clock, which another process can read:"
                " leave `clock` out"
            )
        return ProcessHost(config, mailbox)
    return ThreadHost(config, clock, mailbox)


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait until the mailbox has a newer version than this one, or until the timeout."""

    version: int
    """The mailbox's version when the view was read."""
    timeout_ms: int
    """The longest wait, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The call is done."""

    reached: bool
    """Whether what the call waited for has come."""


Condition = Callable[[MemberView, int], bool]
"""Returns whether a view fulfils the condition of a call, at a time in milliseconds of the member's clock."""


class Drive:
    """One call that drives the member: its deadline, and the condition it waits for."""

    def __init__(self, now_ms: int, timeout_ms: int | None, done: Condition) -> None:
        self.done = done
        self.until_ms = _NEVER_MS if timeout_ms is None else now_ms + timeout_ms
        """When the call ends."""
        # An engine that does not react at all, like a child process that is stopped, must not hold the
        # caller for ever.
        self.patience_until_ms = self.until_ms + _ANSWER_GRACE_MS


class _Lifeline:
    """The resources that end with a member; holds no reference that leads back to the member."""

    def __init__(self) -> None:
        self.host: Host | None = None

    def cut(self) -> None:
        """End the membership, since nothing drives it any more; the garbage collector may call this."""
        host, self.host = self.host, None
        if host is not None:
            host.abandon()


class EngineHandle:
    """The handle that members of both drivers hold; `MemberInterface` documents its public methods. Thread-safe."""

    def __init__(
        self, config: MemberConfig, clock: Clock | None = None, open_host: OpenHost = open_host
    ) -> None:
        self.config = config
        self.clock = clock or SystemClock()
        self.open_host = open_host
        self.mailbox = Mailbox()
        self.closed = False
        """Whether the member can no longer be driven."""
        self._ended = False  # nor be read, which on_leave_prepare still may
        self._side = CallerSide(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.host: Host | None = None
        """What the engine runs on; None before the first call that needs it."""
        self._pid = os.getpid()
        # re-entrant: request_rejoin() may be called by a signal handler, which interrupts its holder
        self._post_lock = CallersLock()
        self._surrendered_count = 0  # how many events it took to give up what the member had
        self._left_count = 0  # how many until it was to leave
        self._woken = False
        self._delivered = 0
        # a member that is dropped without close() must not heartbeat for ever
        self._lifeline = _Lifeline()
        # half the poll interval at most between two signs of life, and not one for every poll(0)
        self._tick_ms = max(1, config.poll_interval_ms // 20)
        self._ticked_ms: int | None = None
        self._ticked_count = 0
        self._idle: tuple[MemberView, int] = (NOT_STARTED, 0)
        """A view, and until when it leaves the caller nothing to do."""
        self._calls: GroupCalls | None = None

    def request_rejoin(self, reason: str, *, hand_over: bool = False) -> None:
        event = events.RejoinRequested(checked_reason(reason), hand_over)
        if self.host is None:
            self.check_usable()
        else:
            self._post(event)

    def expect_rebalance(self, for_ms: int) -> None:
        """Heartbeat often until the next join and at most for so long, as another member is about to request a rebalance."""
        if self.host is not None and not self.closed:
            self._post(events.RebalanceExpected(for_ms))

    def end_with(self, owner: object) -> None:
        weakref.finalize(owner, self._lifeline.cut)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        security = self.config.security.with_credentials(username, password)
        self.check_usable()
        with self._post_lock:
            self.config = replace(self.config, security=security)
            if self.host is not None:
                self._hand_over(events.CredentialsChanged(username, password))

    def wakeup(self) -> None:
        if os.getpid() != self._pid:
            return
        self._woken = True
        self.mailbox.wake()

    def view(self) -> MemberView:
        """Return the engine's latest view, which may predate the caller's last step; an empty one without an engine."""
        if self._ended or os.getpid() != self._pid:  # as `forked`, without a call for each view
            return NOT_STARTED
        return self.mailbox.view

    def generation(self) -> Generation:
        return self.view().generation

    def generation_if_stable(self) -> Generation | None:
        view = self.view()
        # as `snapshot` decides on `stable`, without what else is in one: this is asked before each write
        heard = view.crash is None and view.handled >= self._surrendered_count
        return view.generation if heard and view.believes_at(self.clock.now_ms()) else None

    def member_id(self) -> str:
        return self.generation().member_id

    def snapshot(self) -> MemberSnapshot:
        view = self.view()
        snapshot = MemberSnapshot.of(self.config, view, self.clock.now_ms())
        if view.crash is None:
            # The group may have gone on by the time that the engine shows what it did on the caller's word.
            heard = view.handled >= self._surrendered_count
            if heard:
                return snapshot
            # a member that joins again keeps what it does not give up
            kept = snapshot.holds and view.handled >= self._left_count
            return replace(snapshot, stable=False, holds=kept)
        # Heartbeats have stopped, and nothing would notice when the group goes on without the member.
        return replace(snapshot, stable=False, holds=False, trouble=str(view.crash))

    def holds_for(self, margin_ms: int) -> bool:
        until_ms = self.held_until_ms()
        return until_ms is not None and self.clock.now_ms() + margin_ms < until_ms

    def held_until_ms(self) -> int | None:
        """Return until when, by the member's clock, the group cannot reassign its work; None: it can already."""
        view = self.view()
        if view.crash is not None:
            return None
        # A member that joins again keeps what it does not give up: only leaving lets the group go on at once.
        if view.handled < self._left_count:
            return None
        return view.held_until_ms

    def metrics(self) -> dict[str, float]:
        host = self.host
        if host is None or self.forked:
            return {}
        try:
            return dict(host.metrics().result(METRICS_TIMEOUT_MS / 1000))
        except TimeoutError:
            raise EngineError(f"no answer from the engine in {METRICS_TIMEOUT_MS} ms") from None

    def events(self) -> tuple[RebalanceEvent, ...]:
        offset_ms = WallClock(self.clock).now_ms() - self.clock.now_ms()
        return tuple(
            replace(event, epoch_offset_ms=offset_ms) for event in self.mailbox.view.events
        )

    def ask(self, request: "CoordinatorRequest") -> "Future[Response]":
        """Send the group coordinator a request beside the membership; see `Host.ask`."""
        if self._ended:
            raise MemberClosedError("the member is closed")
        if request.api.key.name in _OF_MEMBERSHIP:
            raise TypeError(
                f"{type(request).__name__} is the membership's own: the member sends it when it is driven"
            )
        if self.host is None or self._ticked_ms is None:
            self.check_usable()
            self._tick(
                self.clock.now_ms()
            )  # nobody looks for a coordinator before the caller shows up
        assert self.host is not None
        return self.host.ask(request)

    def group_calls(self) -> "GroupCalls":
        """Return the calls to the coordinator that commit, read and describe."""
        if self._ended:
            raise MemberClosedError("the member is closed")
        if self._calls is None:
            # imported here: a member that makes no such call need not load the messages
            from groupsdk.drivers.group_calls import GroupCalls

            self._calls = GroupCalls(self.ask, self.snapshot, self.config, self.clock)
        return self._calls

    # For the drivers: what to do next.

    def begin(self, timeout_ms: int | None, done: Condition) -> Drive:
        """Start a call that drives the member; continue with `next_step`."""
        self.check_usable()
        now_ms = self.clock.now_ms()
        # A poll of an idle member wakes the engine only when it is due: polling each second would cost
        # more than the heartbeats.
        if not self.quiet_at(now_ms):
            self._tick(now_ms)
        return Drive(now_ms, timeout_ms, done)

    def next_step(self, drive: Drive) -> Run | Pause | Finish:
        """Return the next step of a call: run user code, wait, or finish."""
        if self.closed:
            return Finish(False)
        version, view = self.mailbox.version, self.mailbox.view
        now_ms = self.clock.now_ms()
        step = self._side.step(view, now_ms)
        if isinstance(step, Raise):
            if step.report is not None:
                self._post(step.report)
            # the same error may be raised many times, and must not grow with each
            raise step.error.with_traceback(None)
        if isinstance(step, Run):
            return step
        if step.settled and drive.done(view, now_ms):
            return Finish(True)
        limit_ms = drive.until_ms if step.settled else drive.patience_until_ms
        woken = self._woken
        if woken:  # else it is not written: a wakeup() of another thread may come right now
            self._woken = False
        if woken or now_ms >= limit_ms:
            return Finish(False)
        if self._ticked_ms is None or now_ms - self._ticked_ms >= self._tick_ms:
            self._tick(now_ms)
        longest_ms = self._tick_ms
        if step.until_ms is not None:
            longest_ms = max(1, min(longest_ms, step.until_ms - now_ms))
        return Pause(version, min(longest_ms, limit_ms - now_ms))

    def answered(self, call: Call, answer: CallerEvent | None) -> None:
        """Report the event from `run_call`; None: the user's code closed the member."""
        if answer is not None and not self.closed:
            # It is a sign of life as well. Posted first: an answer that is lost on the way has to be given again.
            self._ticked_ms = self.clock.now_ms()
            self._ticked_count = self._post(answer)
        self._side.answered(call)
        if isinstance(call, CompleteJoin):
            self._delivered += 1

    def failed(self, call: Call, error: BaseException) -> None:
        """Report that the user's code for a call raised, or was cancelled; only the type of the error is passed on."""
        if not self.closed:
            self._post(events.CallFailed(call.call_id, type(error).__name__))
        self._side.raised(call, self.clock.now_ms())

    def active(self, view: MemberView, now_ms: int) -> bool:
        """Return whether the member is in a stable generation and has applied its assignment, by this view."""
        return not self.closed and is_active(view, now_ms)

    def active_now(self) -> bool:
        """Return whether the member is active, ignoring views from before it gave up its work."""
        view = self.mailbox.view
        return view.handled >= self._surrendered_count and self.active(view, self.clock.now_ms())

    def delivery(self) -> Condition:
        """Return the condition that `poll` waits for: an assignment applied from now on."""
        before = self._delivered
        return lambda view, now_ms: self._delivered != before and self.active(view, now_ms)

    def quiet(self) -> bool:
        """Return whether a poll has nothing to do and is not needed as a sign of life."""
        return self.quiet_at(self.clock.now_ms())

    def quiet_at(self, now_ms: int) -> bool:
        """Return the same as `quiet`, for a caller that knows the time."""
        view = self.mailbox.view
        seen, until_ms = self._idle
        if view is not seen:  # once for each view: an idle consumer asks ten times a second
            until_ms = idle_until_ms(view)
            self._idle = view, until_ms
        return (
            now_ms < until_ms
            and self._ticked_ms is not None
            and now_ms - self._ticked_ms < self._tick_ms
            and not self.closed
            # a view from before the last event says nothing of what that will change, a leave for one
            and view.handled >= self._side.posted_count
            and os.getpid() == self._pid
        )

    # For the drivers: leaving and closing.

    def leave(self, reason: str) -> Callable[[], Pause | None]:
        """Post that the member leaves; return a function for the next wait until the view shows it, then None."""
        return self._lag(self._post(events.LeaveRequested(checked_reason(reason))))

    def give_up_join(self) -> Callable[[], Pause | None]:
        """Post that a parked join is given up, by a closing member as well; return as `leave` does."""
        with self._post_lock:
            if self.host is not None and not self._ended and not self.forked:
                self._side.posted()
                self.host.post(events.JoinGivenUp())
        return self._lag(self._side.posted_count)

    def _lag(self, count: int) -> Callable[[], Pause | None]:
        """Return a function that tells how to wait until the engine has handled so many events."""
        patience = Deadline(self.clock, _ANSWER_GRACE_MS)

        def lag() -> Pause | None:
            version, view = self.mailbox.version, self.mailbox.view
            if view.handled >= count or view.crash is not None or patience.expired:
                return None
            return Pause(version, patience.remaining_ms(_ANSWER_GRACE_MS))

        return lag

    def shut(self) -> Host | None:
        """Refuse further calls that drive the member; return the host to end, if there is one."""
        self.closed = True
        self.mailbox.wake()
        return self.host

    def end(
        self, host: Host | None, operation: GroupMembershipOperation, deadline: Deadline
    ) -> int:
        """Close the member's host; return how many milliseconds to wait for it."""
        self._ended = True
        if host is None:
            return 0
        left_ms = deadline.remaining_ms(_UNLIMITED_MS)
        host.post(events.CloseRequested(operation, left_ms, "the member is being closed"))
        self._lifeline.host = None
        return left_ms + _STOP_GRACE_MS

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the member's, in which locks may never be released."""
        return os.getpid() != self._pid

    def _tick(self, now_ms: int) -> None:
        self._ticked_ms = now_ms
        # One that is still on its way will show that the caller is there: an engine that does not react
        # must not be sent more and more. Unless the caller has left since: that takes it back.
        handled = self.mailbox.view.handled
        if handled >= self._ticked_count or self._ticked_count < self._left_count:
            self.check_usable()
            with self._post_lock:
                count = self._side.posted_count + 1
                self._ticked_count = self._hand_over(events.Polled(self._tick_ms, count))

    def check_usable(self) -> None:
        """Reject calls to a member that is closed, or cut off from its engine by a fork."""
        if self.closed:
            raise MemberClosedError("the member is closed")
        if os.getpid() != self._pid:  # as `forked`, without a call for each event
            raise EngineError(
                "the process forked after the member was created, and its heartbeat stayed in the"
                " parent; create members after forking"
            )

    def _post(self, event: CallerEvent) -> int:
        """Hand the engine an event, and return how many it has been handed by then."""
        self.check_usable()
        with self._post_lock:
            return self._hand_over(event)

    def _hand_over(self, event: CallerEvent) -> int:
        host = self.host or self._start()
        try:
            self._side.posted()
            if isinstance(event, events.JoinPrepared | events.LeaveRequested):
                self._surrendered_count = self._side.posted_count
                if isinstance(event, events.LeaveRequested):
                    self._left_count = self._surrendered_count
            host.post(event)
        except BaseException:
            # That of a signal handler may have lost the event after it was counted. The next tick tells
            # the engine so, and is due at once.
            self._ticked_ms = None
            raise
        return self._side.posted_count

    def _start(self) -> Host:
        host = self.open_host(self.config, self.clock, self.mailbox)
        host.start()
        self.host = self._lifeline.host = host
        return host
