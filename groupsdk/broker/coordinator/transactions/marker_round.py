"""Track the markers of one transaction until every partition has its own."""

import logging
from collections.abc import Mapping
from typing import Final

from groupsdk.error_code import ErrorCode


logger = logging.getLogger(__name__)

DONE: Final = frozenset(
    {
        ErrorCode.NONE,
        # A partition that cannot hold transactions has no records of this one.
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
        # No leader is known: the topic was deleted.
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)
"""Results after which a partition needs no marker any more."""

FENCED: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)
"""Results that mean that a newer producer or coordinator is active, so this one must stop."""

RETRIED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Results that are expected to be temporary. Any other is retried as well, with a warning."""


class MarkerRound:
    """The partitions of a prepared transaction that still need a marker (Kafka: `PendingCompleteTxn`)."""

    def __init__(
        self,
        transactional_id: str,
        partitions: frozenset[tuple[str, int]],
        *,
        backoff_ms: int,
        backoff_max_ms: int,
    ) -> None:
        self.given_up = False
        """Whether the round was fenced: it is not followed any more."""
        self._transactional_id = transactional_id
        self._asked = set(partitions)
        self._failed: set[tuple[str, int]] = set()
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = backoff_max_ms
        self._attempts = 0

    @property
    def waiting(self) -> frozenset[tuple[str, int]]:
        """The partitions without a marker."""
        return frozenset(self._asked | self._failed)

    @property
    def done(self) -> bool:
        """Whether every partition has its marker."""
        return not self._asked and not self._failed

    def report(self, outcomes: Mapping[tuple[str, int], ErrorCode]) -> bool:
        """Record the results of requested partitions. Return whether any must be retried.

        Not if one is fenced (`given_up`).
        """
        for partition in sorted(self._asked & outcomes.keys()):
            error = outcomes[partition]
            if error in FENCED:
                logger.warning(
                    "transactional id %s: giving up on its markers: %s-%d answered %s",
                    self._transactional_id,
                    *partition,
                    error.name,
                )
                self.given_up = True
                return False
            self._asked.remove(partition)
            if error in DONE:
                continue
            self._failed.add(partition)
            logger.log(
                self.level(logging.INFO if error in RETRIED else logging.WARNING),
                "transactional id %s: retrying the marker for %s-%d after %s",
                self._transactional_id,
                *partition,
                error.name,
            )
        return bool(self._failed)

    def level(self, level: int) -> int:
        """Return the level at which to log a failure: DEBUG, except for the first attempt and every power of two.

        This way a partition that is unavailable for hours does not fill the log.
        """
        return logging.DEBUG if self._attempts & (self._attempts - 1) else level

    def backoff_ms(self) -> int:
        """Return how long to wait before the next retry, in milliseconds, and count it."""
        wait_ms = min(self._backoff_max_ms, self._backoff_ms << min(self._attempts, 20))
        self._attempts += 1
        return wait_ms

    def retry(self) -> tuple[tuple[str, int], ...]:
        """Mark the failed partitions as requested again, and return them, sorted."""
        partitions = tuple(sorted(self._failed))
        self._asked |= self._failed
        self._failed.clear()
        return partitions
