"""Decide when a task that failed is started again."""

from dataclasses import dataclass
from random import Random

from groupsdk.backoff import ExponentialBackoff
from groupsdk.errors import ConfigError


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How failed tasks are restarted. Times are milliseconds.

    Raises:
        ConfigError: a value is out of bounds.
    """

    max_restarts: int | None = None
    """How many times in a row; None: without end, 0: never, as in Kafka Connect."""
    backoff_ms: int = 1_000
    """How long to wait before the first restart; doubles each time."""
    backoff_max_ms: int = 60_000
    """The longest wait."""
    reset_after_ms: int = 60_000
    """How long a task has to run for its failures to be forgotten."""

    def __post_init__(self) -> None:
        if self.max_restarts is not None and self.max_restarts < 0:
            raise ConfigError(f"max_restarts is {self.max_restarts}; it must not be negative")
        for name in ("backoff_ms", "backoff_max_ms", "reset_after_ms"):
            if getattr(self, name) < 1:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}; it must be 1 or more, or tasks would spin"
                )


class RestartTracker:
    """Counts the failures of one task.

    Args:
        policy: how to restart.
        random: where jitter comes from.
    """

    def __init__(self, policy: RestartPolicy, random: Random) -> None:
        self._policy = policy
        self._random = random
        self._backoff = ExponentialBackoff(policy.backoff_ms, policy.backoff_max_ms)
        self.failures = 0

    def failed(self, ran_ms: int) -> int | None:
        """Return in how many milliseconds to start again; None: not at all.

        Args:
            ran_ms: how long it ran before.
        """
        if ran_ms >= self._policy.reset_after_ms:
            self.failures = 0
        limit = self._policy.max_restarts
        if limit is not None and self.failures >= limit:
            return None
        wait_ms = self._backoff.backoff_ms(self.failures, self._random)
        self.failures += 1
        return max(1, wait_ms)
