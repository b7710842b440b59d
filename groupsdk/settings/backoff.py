"""Decide how long to wait before the next attempt, and build the retries of the drivers from it."""

import logging
import math
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING

from groupsdk.errors import ConfigError, GroupSdkError
from groupsdk.lazy_dataclasses import dataclass


if TYPE_CHECKING:
    from tenacity import AsyncRetrying, RetryCallState

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """An exponential backoff with jitter (KIP-580; Kafka: `ExponentialBackoff`).

    Without growth (`max_ms` not above `initial_ms`) there is no jitter either, as in Kafka's class. Raises
    ConfigError if an argument is out of bounds.
    """

    initial_ms: int
    """The wait after the first failure; `retry.backoff.ms`."""
    max_ms: int
    """The longest wait, jitter included; `retry.backoff.max.ms`."""
    multiplier: int = 2
    """The growth from one wait to the next."""
    jitter: float = 0.2
    """The wait is multiplied by a random factor in [1 - jitter, 1 + jitter)."""

    def __post_init__(self) -> None:
        for name in ("initial_ms", "max_ms"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative, but is {getattr(self, name)}")
        if self.multiplier < 2:
            raise ConfigError(f"multiplier must be at least 2, not {self.multiplier}")
        if not 0 <= self.jitter <= 1:
            raise ConfigError(f"jitter must be from 0 to 1, not {self.jitter}")

    def backoff_ms(self, attempts: int, random: Random) -> int:
        """Return the wait in milliseconds after `attempts` earlier failures: the shortest for 0."""
        if attempts < 0:
            raise ValueError(f"attempts must not be negative, but is {attempts}")
        if self.max_ms <= self.initial_ms:
            return min(self.initial_ms, self.max_ms)
        limit = math.log(self.max_ms / max(self.initial_ms, 1)) / math.log(self.multiplier)
        # The exponent is bounded, so no number of attempts overflows.
        term = self.initial_ms * self.multiplier ** min(float(attempts), limit)
        factor = 1 + self.jitter * (2 * random.random() - 1)
        return min(self.max_ms, int(term * factor))


def tenacity_wait(
    backoff: ExponentialBackoff, random: Random
) -> "Callable[[RetryCallState], float]":
    """Return a wait strategy for tenacity, which counts attempts from 1 and waits in seconds."""

    def wait(state: "RetryCallState") -> float:
        return backoff.backoff_ms(state.attempt_number - 1, random) / 1000

    return wait


def retry_strategy(
    backoff: ExponentialBackoff,
    random: Random,
    what: str,
    *,
    sleep: Callable[[float], Awaitable[None]] | None = None,
) -> "AsyncRetrying":
    """Return the tenacity strategy for an operation that is repeated while its error is retriable.

    The last error is raised as it is. Failures are logged at INFO the first time and then at every power
    of two, so that a broker that is down for hours does not fill the log.

    Args:
        what: names the operation in the log, group first, e.g. ``"group g: coordinator discovery"``.
        sleep: waits for so many seconds; by default that of the running event loop.
    """
    # Loading tenacity takes longer than loading the rest of the client.
    import tenacity

    def log(state: "RetryCallState") -> None:
        attempt = state.attempt_number
        level = logging.INFO if attempt & (attempt - 1) == 0 else logging.DEBUG
        error = state.outcome.exception() if state.outcome is not None else None
        logger.log(
            level,
            "%s failed (attempt %d), next attempt in %d ms: %s",
            what,
            attempt,
            round(state.upcoming_sleep * 1000),
            error,
        )

    strategy = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(_is_retriable),
        wait=tenacity_wait(backoff, random),
        before_sleep=log,
        reraise=True,
    )
    return strategy if sleep is None else strategy.copy(sleep=sleep)


def _is_retriable(exc: BaseException) -> bool:
    return isinstance(exc, GroupSdkError) and exc.retriable
