"""A member's deadlines under the heartbeat interval and session timeout that the broker sets."""

from random import Random
from typing import ClassVar, Final, Self

from groupsdk.error_code import ErrorCode
from groupsdk.lazy_imports import override
from groupsdk.member.heartbeat import EarlyHeartbeats, HeartbeatTimer
from groupsdk.settings.backoff import ExponentialBackoff
from groupsdk.settings.config import ConsumerMemberConfig
from groupsdk.wire.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)


SESSION_IN_INTERVALS: Final = 3
"""The assumed session timeout in heartbeat intervals until the broker has said it: Kafka advises that many or more."""
LONGEST_GUESS_MS: Final = 45_000
"""How long it is taken to last at most then: Kafka's default, and the shortest that a broker allows by default."""
ASK_EVERY_MS: Final = 60_000
"""How often the session timeout is requested: an administrator may change it at any time."""
_GROUP: Final = 32
_SESSION_KEY: Final = "consumer.session.timeout.ms"
_LONGEST_MS: Final = 2**31 - 1


class BrokerPacedHeartbeat(HeartbeatTimer):
    """The deadlines of `HeartbeatTimer`, with an interval and a session timeout that may change."""

    _early_refill_ms: ClassVar[int | None] = 1_000
    """How often the broker makes a new assignment at most, by default (group.consumer.assignment.interval.ms).

    A member that has spent its early heartbeats learns of each within about that time, not within an interval.
    """
    _told_session_ms: int | None = None
    _told_before_change = False
    """Whether the interval has changed since the question was sent that `_told_session_ms` answers."""
    _asked_since_change = False
    ask_session_at_ms = 0
    """When to request the session timeout."""

    @classmethod
    def of(cls, config: ConsumerMemberConfig, backoff: ExponentialBackoff, random: Random) -> Self:
        """Return the deadlines of a member that has had no response from its broker yet."""
        return cls(
            session_timeout_ms=_guessed_ms(config.heartbeat_interval_ms),
            rebalance_timeout_ms=config.poll_interval_ms,
            interval_ms=config.heartbeat_interval_ms,
            max_poll_interval_ms=config.poll_interval_ms,
            backoff=backoff,
            random=random,
        )

    def paced(self, interval_ms: int, now_ms: int) -> None:
        """Apply the heartbeat interval from a response; one that is out of bounds is ignored."""
        if not 0 < interval_ms <= _LONGEST_MS or interval_ms == self.interval_ms:
            return
        self.interval_ms = interval_ms
        self._early = EarlyHeartbeats(interval_ms, self._early_refill_ms)
        if self.next_ms is not None:
            self.next_ms = min(self.next_ms, now_ms + interval_ms)
        # Who changed the one may have changed the other: until it is told again, the shorter time is believed.
        self._told_before_change, self._asked_since_change = True, False
        self.ask_session_at_ms = now_ms
        self._set_session()

    def soon(self, now_ms: int) -> None:
        """Send the next heartbeats early, at growing intervals, since partitions are about to move."""
        self._early.joined()
        next_ms = now_ms + self._early.distance_ms(now_ms)
        self.next_ms = next_ms if self.next_ms is None else min(self.next_ms, next_ms)

    @override
    def enable(self, now_ms: int) -> None:
        """Restart the deadlines; the first heartbeat is due at once."""
        super().enable(now_ms)
        self.next_ms = now_ms

    def put_off(self, until_ms: int) -> None:
        """Send no heartbeat before a time."""
        if self.next_ms is not None:
            self.next_ms = max(self.next_ms, until_ms)

    def session_request(self, group_id: str, now_ms: int) -> DescribeConfigsRequest:
        """Return the request for the group's session timeout, and schedule the next one."""
        self.ask_session_at_ms = now_ms + ASK_EVERY_MS
        self._asked_since_change = True
        resource = DescribeConfigsResource(
            resource_type=_GROUP, resource_name=group_id, configuration_keys=(_SESSION_KEY,)
        )
        return DescribeConfigsRequest(resources=(resource,))

    def session_told(self, response: DescribeConfigsResponse) -> str | None:
        """Apply the session timeout from a response. Return why there is none; None: it was applied."""
        for result in response.results:
            if result.error_code:
                return f"{ErrorCode.of(result.error_code).name}: {result.error_message or ''}"
            for config in result.configs:
                value = config.value or ""
                if (
                    config.name == _SESSION_KEY
                    and value.isdecimal()
                    and 0 < int(value) <= _LONGEST_MS
                ):
                    self._told_session_ms = int(value)
                    self._told_before_change = not self._asked_since_change
                    self._set_session()
                    return None
        return f"the broker does not know {_SESSION_KEY}"

    @property
    def session_timeout_ms(self) -> int:
        """The session timeout that the member assumes."""
        return self.possession.session_timeout_ms

    def _set_session(self) -> None:
        told_ms, guessed_ms = self._told_session_ms, _guessed_ms(self.interval_ms)
        if told_ms is None:
            self.possession.session_timeout_ms = guessed_ms
        else:
            self.possession.session_timeout_ms = (
                min(told_ms, guessed_ms) if self._told_before_change else told_ms
            )


def _guessed_ms(interval_ms: int) -> int:
    return min(interval_ms * SESSION_IN_INTERVALS, LONGEST_GUESS_MS)
