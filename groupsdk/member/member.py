"""The data of one member, whatever its protocol: state and generation, timers, requests, call and error."""

import logging
from collections.abc import Callable, Hashable
from random import Random
from typing import Final

from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    CoordinatorNotAvailableError,
    DisconnectedError,
    GroupSdkError,
)
from groupsdk.member import requests
from groupsdk.member.actions import Action, AnswerCaller, Call, Disconnect, Node, Send
from groupsdk.member.events import CallerEvent, Event, Polled
from groupsdk.member.heartbeat import HeartbeatTimer
from groupsdk.member.metrics import CoordinatorMetrics
from groupsdk.member.recorder import RebalanceRecorder
from groupsdk.member.state import MemberState
from groupsdk.member.view import Failure
from groupsdk.settings.backoff import ExponentialBackoff
from groupsdk.settings.config import MemberConfig
from groupsdk.types import NO_GENERATION
from groupsdk.wire.schema import ApiKey


logger = logging.getLogger(__name__)

_MAX_KEYS: Final = 100
"""How many kinds of log lines are counted; beyond that, counting starts over."""
Step = Callable[[], list[Action]]
"""Does something that is due, after which it is not due any more."""

Deadline = tuple[int, Step]
"""When something is due, and what to do then."""


class Member:
    """The state shared by joining, heartbeating and leaving.

    A method that needs something done outside returns the actions; nothing collects them here.
    """

    def __init__(self, config: MemberConfig, random: Random) -> None:
        self.config = config
        self.random = random
        self.backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.heartbeat = HeartbeatTimer(
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
            # A member that heartbeats more rarely than that could not hear of a rebalance in time.
            interval_ms=min(config.heartbeat_interval_ms, max(1, config.rebalance_timeout_ms // 2)),
            max_poll_interval_ms=config.poll_interval_ms,
            backoff=self.backoff,
            random=random,
        )
        self.coordinator: Node | None = None
        """Where the coordinator is, as `CoordinatorAccess` has found it."""
        self.trouble: str | None = None
        """Why the coordinator cannot be found or reached at present, as `CoordinatorAccess` has it."""
        self.requests = requests.InFlightRequests()
        self.metrics = CoordinatorMetrics()
        self.log_thinner = LogThinner()
        self.state = MemberState.UNJOINED
        self.generation = NO_GENERATION
        self.is_leader = False
        self.failure: Failure | None = None
        self.fatal: GroupSdkError | None = None
        """Why the member was refused for good; its caller may have to hear of a loss first."""
        self.call: Call | None = None
        """The callback that the caller is to run; an answer to any other call is stale."""
        self.assignment_epoch = 0
        """How many assignments the member has received."""
        self.recorder = RebalanceRecorder()
        self.caller_present = False
        self.owes_leave = False
        """Whether the coordinator is yet to hear that the member has left, so that it is looked up if need be."""
        self.unreported_ms = 0
        """For how long the caller may poll without a word after the last that was heard of it."""
        self.now_ms = 0
        """The time of the event that is being handled."""
        self.handled = 0
        """How many of the caller's events were handled."""
        self._last_failure_id = 0
        self._last_call_id = 0

    def count(self, event: Event) -> None:
        """Count an event that was handled, if it is one of the caller's.

        One that the caller counted may have been lost: a signal handler's exception may be raised between counting an
        event and posting it. The count in the next `Polled` makes up for it.
        """
        if isinstance(event, Polled):
            self.handled = max(self.handled + 1, event.posted_count)
        elif isinstance(event, CallerEvent):
            self.handled += 1

    def next_call_id(self) -> int:
        """Return the id of another call."""
        self._last_call_id += 1
        return self._last_call_id

    def send(
        self,
        request: requests.MembershipRequest | requests.CoordinatorRequest,
        api: ApiKey,
        timeout_ms: int,
        caller_request_id: int | None = None,
    ) -> Send:
        """Register a request to the coordinator, which must be known; return the action that sends it."""
        node = self.coordinator
        if node is None:
            raise AssertionError(f"{api.name} without a coordinator")
        request_id = self.requests.add(
            api,
            self.generation,
            self.now_ms,
            timeout_ms,
            requests.payload(request) if api in requests.PARKED else ("", 0),
            caller_request_id,
        )
        return Send(request_id, node, request)

    def drop_connection(
        self, error: GroupSdkError | None = None
    ) -> tuple[list[Action], tuple[requests.InFlightRequest, ...]]:
        """Forget the requests in flight on the connection; their callers get the error, if they were not given up."""
        actions: list[Action] = [Disconnect()]
        flights = self.requests.clear()
        for flight in flights:
            if flight.caller_request_id is not None:
                why = error or DisconnectedError(f"{flight.api.name} was given up")
                actions.append(AnswerCaller(flight.caller_request_id, why))
        return actions, flights

    def fail(self, error: GroupSdkError) -> None:
        """Keep an error for the caller's next call; a fatal one is never replaced."""
        if self.failure is None or not self.failure.error.fatal:
            self._last_failure_id += 1
            self.failure = Failure(self._last_failure_id, error)

    def failure_raised(self, failure_id: int) -> None:
        """Forget the error with this id, which the caller has raised, unless it is fatal or a newer one."""
        if (
            self.failure is not None
            and self.failure.failure_id == failure_id
            and not self.failure.error.fatal
        ):
            self.failure = None

    def recovered_from(self, error: GroupSdkError | None) -> None:
        """Forget this very error if the caller has not raised it yet."""
        if self.failure is not None and self.failure.error is error:
            self.failure = None

    def log_thinned(self, key: Hashable, level: int, message: str, *arguments: object) -> None:
        """Log a line that an outage may repeat every second, with repetitions thinned out and at a lower level."""
        level, suffix = self.log_thinner.thinned(key, level)
        self.log(level, f"{message}%s", *arguments, suffix)

    def log(self, level: int, message: str, *arguments: object) -> None:
        """Log a line, preceded by group, member and generation."""
        if logger.isEnabledFor(level):
            logger.log(
                level,
                f"group=%s member=%s generation=%d: {message}",  # noqa: G004  # message is a format too
                self.config.group_id,
                self.generation.member_id or "-",
                self.generation.generation_id,
                *arguments,
            )

    def without_coordinator(self, asked: str) -> CoordinatorNotAvailableError:
        """Return the error of a request that has no coordinator to go to, with what was tried to find it."""
        if self.trouble is not None:
            asked = f"{asked} ({self.trouble})"
        return CoordinatorNotAvailableError(ErrorCode.COORDINATOR_NOT_AVAILABLE, asked)

    def unproven(self, asked: str) -> GroupSdkError | None:
        """Return why the member may not commit at present; None if it may."""
        if not self.heartbeat.possession.lapsed(self.now_ms):
            return None
        # which can be tried again: the answer to a heartbeat decides
        return CoordinatorNotAvailableError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"{asked}, whose coordinator has not confirmed the membership in time",
        )


class LogThinner:
    """Log what repeats itself in an outage at the first, second, fourth, eighth time and so on."""

    def __init__(self) -> None:
        self.counts: dict[Hashable, int] = {}
        """How often each kind of line was logged; empty in calm times."""

    def thinned(self, key: Hashable, level: int) -> tuple[int, str]:
        """Return the level for a log line, its own or DEBUG, and the suffix to add to it."""
        if len(self.counts) >= _MAX_KEYS:
            self.counts.clear()
        count = self.counts[key] = self.counts.get(key, 0) + 1
        shown = level if count & (count - 1) == 0 else logging.DEBUG
        return shown, f" ({count} times by now)" if count > 1 else ""

    def calm(self) -> None:
        """Record the recovery: the next line is logged as if it were the first."""
        self.counts.clear()
