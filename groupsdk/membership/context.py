"""Hold what the parts of a member's machine share."""

import logging
from collections.abc import Hashable
from random import Random

from groupsdk.backoff import ExponentialBackoff
from groupsdk.config import MemberConfig
from groupsdk.errors import DisconnectedError, GroupSdkError
from groupsdk.membership.actions import Action, AnswerCaller, Disconnect, Send
from groupsdk.membership.connection_failures import LogThinner
from groupsdk.membership.discovery import Discovery
from groupsdk.membership.heartbeat import HeartbeatTimer
from groupsdk.membership.in_flight import PARKED, InFlightRequest, InFlightRequests
from groupsdk.membership.metrics import CoordinatorMetrics
from groupsdk.membership.requests import CoordinatorRequest, MembershipRequest, payload
from groupsdk.membership.state import MemberState, Trigger, next_state
from groupsdk.membership.view import Failure
from groupsdk.types import NO_GENERATION, NO_GENERATION_ID, UNKNOWN_MEMBER_ID, Generation
from groupsdk.wire.schema import ApiKey


logger = logging.getLogger(__name__)


class MemberContext:
    """The state that joining, heartbeating and leaving have in common, and the actions of this step."""

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
        self.discovery = Discovery(self.backoff, random)
        self.requests = InFlightRequests()
        self.metrics = CoordinatorMetrics()
        self.repeats = LogThinner()
        self.state = MemberState.UNJOINED
        self.generation = NO_GENERATION
        self.is_leader = False
        self.failure: Failure | None = None
        self.caller_present = False
        self.now_ms = 0
        self.actions: list[Action] = []
        self._last_failure_id = 0

    def move(self, trigger: Trigger) -> None:
        """Go to the next state."""
        self.state = next_state(self.state, trigger)

    def send(
        self,
        request: MembershipRequest | CoordinatorRequest,
        api: ApiKey,
        timeout_ms: int,
        caller_request_id: int | None = None,
    ) -> None:
        """Send a request to the coordinator, which has to be known."""
        node = self.discovery.coordinator
        if node is None:
            raise AssertionError(f"{api.name} without a coordinator")
        request_id = self.requests.add(
            api, self.generation, self.now_ms, timeout_ms, payload(request), caller_request_id
        )
        self.actions.append(Send(request_id, node, request))

    def drop_connection(self, error: GroupSdkError | None = None) -> tuple[InFlightRequest, ...]:
        """Drop the connection to the coordinator; return what will have no answer, and tell so who asked."""
        self.actions.append(Disconnect())
        flights = self.requests.clear()
        for flight in flights:
            if flight.caller_request_id is not None:
                why = error or DisconnectedError(f"{flight.api.name} was given up")
                self.actions.append(AnswerCaller(flight.caller_request_id, why))
        return flights

    def fail(self, error: GroupSdkError) -> None:
        """Keep an error for the caller's next call; a fatal one is never replaced."""
        if self.failure is None or not self.failure.error.fatal:
            self._last_failure_id += 1
            self.failure = Failure(self._last_failure_id, error)

    def failure_raised(self, failure_id: int) -> None:
        """Forget the error that the caller has been given, unless it is fatal."""
        if (
            self.failure is not None
            and self.failure.failure_id == failure_id
            and not self.failure.error.fatal
        ):
            self.failure = None

    def recovered_from(self, error: GroupSdkError | None) -> None:
        """Forget this error if the caller has not been given it yet."""
        if self.failure is not None and self.failure.error is error:
            self.failure = None

    def forget_membership(self, *, keep_member_id: bool) -> None:
        """Be in no generation, and ignore what is still answered about the old one."""
        # A parked request would hold up whatever follows it on the connection.
        if self.requests.has(*PARKED):
            self.drop_connection()
        self.requests.abandon(ApiKey.HEARTBEAT, ApiKey.DESCRIBE_GROUPS)
        self.move(Trigger.RESET)
        member_id = self.generation.member_id if keep_member_id else UNKNOWN_MEMBER_ID
        self.generation = Generation(NO_GENERATION_ID, member_id, None)
        self.is_leader = False
        self.heartbeat.forget()

    def log_thinned(self, key: Hashable, level: int, message: str, *arguments: object) -> None:
        """Log a line that an outage may repeat every second; `key` tells those that say the same."""
        level, suffix = self.repeats.thinned(key, level)
        self.log(level, f"{message}%s", *arguments, suffix)

    def log(self, level: int, message: str, *arguments: object) -> None:
        """Log with group, member and generation in front."""
        if logger.isEnabledFor(level):
            logger.log(
                level,
                f"group=%s member=%s generation=%d: {message}",  # noqa: G004  # message is a format too
                self.config.group_id,
                self.generation.member_id or "-",
                self.generation.generation_id,
                *arguments,
            )
