"""The data of one member, which both protocols share: state and generation, timers, requests, error; and what is due."""

import logging
from collections.abc import Callable, Hashable, Sequence
from random import Random
from typing import Final

from groupsdk.backoff import ExponentialBackoff
from groupsdk.config import MemberConfig
from groupsdk.error_code import ErrorCode
from groupsdk.errors import (
    CoordinatorNotAvailableError,
    DisconnectedError,
    GroupSdkError,
    IllegalGenerationError,
    RebalanceInProgressError,
)
from groupsdk.membership.actions import Action, AnswerCaller, Disconnect, Node, Send
from groupsdk.membership.events import CallerEvent, CallerRequest, Event, Polled
from groupsdk.membership.heartbeat import HeartbeatTimer
from groupsdk.membership.metrics import CoordinatorMetrics
from groupsdk.membership.requests import (
    PARKED,
    CoordinatorRequest,
    InFlightRequest,
    InFlightRequests,
    MembershipRequest,
    payload,
)
from groupsdk.membership.state import MemberState, Trigger, next_state
from groupsdk.membership.view import Failure
from groupsdk.types import NO_GENERATION, NO_GENERATION_ID, UNKNOWN_MEMBER_ID, Generation
from groupsdk.wire.messages.offset_commit import OffsetCommitRequest
from groupsdk.wire.schema import ApiKey


logger = logging.getLogger(__name__)

_MAX_KEYS: Final = 100
"""How many kinds of log lines are counted; beyond that, counting starts over."""
_MOST_STEPS: Final = 20
"""More than can be due at once."""

Step = Callable[[], list[Action]]
"""Does something that is due, after which it is not due any more."""

Deadline = tuple[int, Step]
"""When something is due, and what to do then."""


class Member:
    """The state shared by joining, heartbeating and leaving.

    A method that needs something done outside returns the actions; nothing collects them here.

    Args:
        config: the member's settings.
        random: where jitter comes from.
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
        self.requests = InFlightRequests()
        self.metrics = CoordinatorMetrics()
        self.log_thinner = LogThinner()
        self.state = MemberState.UNJOINED
        self.generation = NO_GENERATION
        self.is_leader = False
        self.failure: Failure | None = None
        self.caller_present = False
        self.unreported_ms = 0
        """For how long the caller may poll without a word after the last that was heard of it."""
        self.now_ms = 0
        """The time of the event that is being handled."""
        self.handled = 0
        """How many of the caller's events were handled."""
        self._last_failure_id = 0

    def count(self, event: Event) -> None:
        """Count an event that was handled, if it is one of the caller's.

        One that the caller counted may have been lost: a signal handler's exception may be raised between counting an
        event and posting it. The count in the next `Polled` makes up for it.

        Args:
            event: the event, the caller's or the driver's.
        """
        if isinstance(event, Polled):
            self.handled = max(self.handled + 1, event.posted_count)
        elif isinstance(event, CallerEvent):
            self.handled += 1

    def move(self, trigger: Trigger) -> None:
        """Change the state.

        Args:
            trigger: what happened.

        Raises:
            ValueError: the state table has no such transition.
        """
        self.state = next_state(self.state, trigger)

    def send(
        self,
        request: MembershipRequest | CoordinatorRequest,
        api: ApiKey,
        timeout_ms: int,
        caller_request_id: int | None = None,
    ) -> Send:
        """Register a request to the coordinator, which must be known, and return the action that sends it.

        Args:
            request: the request.
            api: its API.
            timeout_ms: how long a response may take, in milliseconds.
            caller_request_id: the caller's id of its own request; None: one of the membership's.
        """
        node = self.coordinator
        if node is None:
            raise AssertionError(f"{api.name} without a coordinator")
        request_id = self.requests.add(
            api,
            self.generation,
            self.now_ms,
            timeout_ms,
            payload(request),
            caller_request_id,
        )
        return Send(request_id, node, request)

    def send_for_caller(self, event: CallerRequest) -> Action:
        """Send a request of the caller's, or fail it at once if it cannot be sent now.

        It goes over the member's own connection, so that it is in order with its joins, and an error in the
        answer is about the same membership that the heartbeats keep up.

        Args:
            event: the request, with the caller's id.

        Returns:
            A `Send`, or an `AnswerCaller` with the error.
        """
        error = self._unsendable(event)
        if error is not None:
            return AnswerCaller(event.caller_request_id, error)
        return self.send(
            event.request,
            event.request.api.key,
            self.config.request_timeout_ms,
            caller_request_id=event.caller_request_id,
        )

    def drop_connection(
        self, error: GroupSdkError | None = None
    ) -> tuple[list[Action], tuple[InFlightRequest, ...]]:
        """Forget the requests in flight on the connection to the coordinator.

        Args:
            error: why, for the callers whose requests will go unanswered; None: they were given up.

        Returns:
            What drops the connection and answers those callers, and the requests.
        """
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
        """Forget the error that the caller has raised, unless it is fatal.

        Args:
            failure_id: the id of the `Failure`; an older one is ignored.
        """
        if (
            self.failure is not None
            and self.failure.failure_id == failure_id
            and not self.failure.error.fatal
        ):
            self.failure = None

    def recovered_from(self, error: GroupSdkError | None) -> None:
        """Forget this error if the caller has not raised it yet.

        Args:
            error: the error, compared by identity; None: nothing to forget.
        """
        if self.failure is not None and self.failure.error is error:
            self.failure = None

    def forget_membership(self, *, keep_member_id: bool) -> list[Action]:
        """Reset the generation, and ignore responses to requests of the old one.

        Args:
            keep_member_id: whether the next join uses the same member id, as after ILLEGAL_GENERATION.

        Returns:
            A `Disconnect` if a parked request would hold up what follows it on the connection.
        """
        actions: list[Action] = []
        # A parked request would hold up whatever follows it on the connection.
        if self.requests.has(*PARKED):
            actions, _ = self.drop_connection()
        self.requests.abandon(ApiKey.HEARTBEAT, ApiKey.DESCRIBE_GROUPS)
        self.move(Trigger.RESET)
        member_id = self.generation.member_id if keep_member_id else UNKNOWN_MEMBER_ID
        self.generation = Generation(NO_GENERATION_ID, member_id, None)
        self.is_leader = False
        self.heartbeat.forget()
        return actions

    def log_thinned(self, key: Hashable, level: int, message: str, *arguments: object) -> None:
        """Log a line that an outage may repeat every second, with repetitions thinned out.

        Args:
            key: equal for lines that say the same.
            level: the level of the first one; repetitions may have a lower one.
            message: a format, as for `logging`.
            arguments: its arguments.
        """
        level, suffix = self.log_thinner.thinned(key, level)
        self.log(level, f"{message}%s", *arguments, suffix)

    def log(self, level: int, message: str, *arguments: object) -> None:
        """Log a line, preceded by group, member and generation.

        Args:
            level: a level of `logging`.
            message: a format, as for `logging`.
            arguments: its arguments.
        """
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
        """Return the error of a request that has no coordinator to go to, with what was tried to find it.

        Args:
            asked: the request, for the message.
        """
        if self.trouble is not None:
            asked = f"{asked} ({self.trouble})"
        return CoordinatorNotAvailableError(ErrorCode.COORDINATOR_NOT_AVAILABLE, asked)

    def _unsendable(self, event: CallerRequest) -> GroupSdkError | None:
        request = event.request
        asked = f"{request.api.key.name} of group {self.config.group_id!r}"
        if self.coordinator is None:
            return self.without_coordinator(asked)
        if self.requests.has(*PARKED):
            # The broker reads nothing more from the connection before it has answered the join.
            return RebalanceInProgressError(ErrorCode.REBALANCE_IN_PROGRESS, asked)
        if isinstance(request, OffsetCommitRequest):
            if not self._is_current(request):
                return IllegalGenerationError(ErrorCode.ILLEGAL_GENERATION, asked)
            return self.unproven(asked)
        return None

    def unproven(self, asked: str) -> GroupSdkError | None:
        """Return why the member may not commit at present; None if it may.

        Args:
            asked: the request, for the error.
        """
        if not self.heartbeat.possession.lapsed(self.now_ms):
            return None
        # which can be tried again: the answer to a heartbeat decides
        return CoordinatorNotAvailableError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"{asked}, whose coordinator has not confirmed the membership in time",
        )

    def _is_current(self, request: OffsetCommitRequest) -> bool:
        generation = self.generation
        return (
            request.generation_id_or_member_epoch == generation.generation_id >= 0
            and request.member_id == generation.member_id
        )


def do_what_is_due(
    deadlines: Callable[[], Sequence[Deadline]], now_ms: int
) -> tuple[list[Action], int | None]:
    """Do all work that is due; return the actions and the next deadline.

    Args:
        deadlines: lists what is due when, the most urgent first. It is called once for each thing that is
            done, since each may change what is due.
        now_ms: the time.
    """
    actions: list[Action] = []
    for _ in range(_MOST_STEPS):
        next_ms: int | None = None
        for at_ms, step in deadlines():
            if at_ms <= now_ms:
                actions += step()
                break
            if next_ms is None or at_ms < next_ms:
                next_ms = at_ms
        else:
            return actions, next_ms
    raise AssertionError("the machine spins: something stays due whatever is done about it")


class LogThinner:
    """Log what repeats itself in an outage at the first, second, fourth, eighth time and so on."""

    def __init__(self) -> None:
        self._counts: dict[Hashable, int] = {}

    def thinned(self, key: Hashable, level: int) -> tuple[int, str]:
        """Return the level for a log line, and the suffix to add to it.

        Args:
            key: equal for lines that say the same.
            level: that of the line where it is logged; else it is DEBUG.
        """
        if len(self._counts) >= _MAX_KEYS:
            self._counts.clear()
        count = self._counts[key] = self._counts.get(key, 0) + 1
        shown = level if count & (count - 1) == 0 else logging.DEBUG
        return shown, f" ({count} times by now)" if count > 1 else ""

    def calm(self) -> None:
        """Record the recovery: the next line is logged as if it were the first."""
        self._counts.clear()
