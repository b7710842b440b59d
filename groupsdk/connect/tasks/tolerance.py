"""Handle failures: of records, by retries, tolerance and dead letters (KIP-298); of tasks, by restarts."""

from collections.abc import Collection
from dataclasses import dataclass
from random import Random
from typing import Final, Literal

from groupsdk.connect.connectors.connector_config import ErrorPolicy
from groupsdk.connect.connectors.secrets import conceal
from groupsdk.connect.errors import ConnectError, RetriableError
from groupsdk.connect.store.status_backing_store import stack_trace
from groupsdk.dead_letters import ErrantRecord
from groupsdk.errors import ConfigError
from groupsdk.settings.backoff import ExponentialBackoff


_FIRST_DELAY_MS: Final = 300

Outcome = Literal["recovered", "skipped", "fatal"]


@dataclass(frozen=True, slots=True)
class RecordFailure:
    """The outcome of a record whose first attempt failed."""

    record: ErrantRecord
    outcome: Outcome
    """"recovered" by a retry, "skipped", or "fatal" for its task."""
    errors: int
    """How many attempts failed; 1 or more."""
    error_class: str
    """The qualified name."""
    message: str
    trace: str
    """Message and stack trace of the last error have their secrets masked."""


@dataclass(slots=True)
class ErrorCounts:
    """The error counts of one task, under the names of `task-error-metrics`."""

    total_record_failures: int = 0
    """Records that could not be handled in the end."""
    total_record_errors: int = 0
    """Attempts that failed."""
    total_records_skipped: int = 0
    """Records that were skipped because errors are tolerated."""
    total_retries: int = 0
    """Attempts after the first one."""
    total_errors_logged: int = 0
    """Failures that were logged."""
    deadletterqueue_produce_requests: int = 0
    """Dead letters that were to be written."""
    deadletterqueue_produce_failures: int = 0
    """Dead letters that could not be written."""
    last_error_timestamp: int = 0
    """When the last failure was counted, in milliseconds since 1970; 0 if there was none."""

    def count(self, failure: RecordFailure, date_ms: int) -> None:
        """Count the outcome of a record; logging and dead letters are counted where they happen."""
        self.total_record_errors += failure.errors
        self.last_error_timestamp = date_ms
        if failure.outcome == "recovered":
            self.total_retries += failure.errors
            return
        self.total_retries += failure.errors - 1
        self.total_record_failures += 1
        if failure.outcome == "skipped":
            self.total_records_skipped += 1


class Attempts:
    def __init__(
        self,
        policy: ErrorPolicy,
        record: object,
        now_ms: int,
        random: Random,
        secrets: Collection[str] = (),
    ) -> None:
        self._secrets = secrets
        self._policy = policy
        self._record = record
        self._random = random
        self._errors = 0
        self._last: Exception | None = None
        timeout_ms = policy.retry_timeout_ms
        self._until_ms = None if timeout_ms < 0 else now_ms + timeout_ms

    def failed(self, error: Exception, now_ms: int) -> int | None:
        """Record an error, and return the delay before the next attempt in milliseconds; None if there is none.

        Delays double from a first one, up to `errors.retry.delay.max.ms`, and never exceed what is left of `errors.retry.timeout`.
        Raises ConnectError if the error is not about the record: the task is fenced, for example.
        """
        if isinstance(error, ConnectError) and not isinstance(error, RetriableError):
            raise error
        self._errors += 1
        self._last = error
        if not is_retriable(error):
            return None
        most_ms = self._policy.retry_delay_max_ms
        delay_ms = _FIRST_DELAY_MS << min(self._errors - 1, 40)
        if delay_ms > most_ms:
            # all tasks that wait for the same thing would come at once otherwise
            delay_ms = self._random.randint((most_ms + 1) // 2, most_ms)
        if self._until_ms is None:
            return delay_ms
        left_ms = self._until_ms - now_ms
        return min(delay_ms, left_ms) if left_ms > 0 else None

    def outcome(self, *, recovered: bool = False) -> RecordFailure | None:
        """Return the outcome of the record; None if there was no error."""
        error = self._last
        if error is None:
            return None
        kind = type(error)
        skipped: Outcome = "skipped" if self._policy.tolerate else "fatal"
        return RecordFailure(
            ErrantRecord.of(self._record),
            "recovered" if recovered else skipped,
            self._errors,
            f"{kind.__module__}.{kind.__qualname__}",
            conceal(str(error), self._secrets),
            stack_trace(error, self._secrets),
        )


def is_retriable(error: Exception) -> bool:
    """Return whether an error is temporary: its `retriable` is true, or it is of connections, timeouts, or librdkafka's retriable ones."""
    if getattr(error, "retriable", None) is True:
        return True
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    first = error.args[0] if error.args else None
    retriable = getattr(first, "retriable", None)
    return callable(retriable) and retriable() is True


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
            raise ConfigError(f"max_restarts must not be negative, but is {self.max_restarts}")
        for name in ("backoff_ms", "backoff_max_ms", "reset_after_ms"):
            if getattr(self, name) < 1:
                raise ConfigError(
                    f"{name} must be at least 1, or tasks would spin, but is {getattr(self, name)}"
                )


class RestartTracker:
    def __init__(self, policy: RestartPolicy, random: Random) -> None:
        self._policy = policy
        self._random = random
        self._backoff = ExponentialBackoff(policy.backoff_ms, policy.backoff_max_ms)
        self.failures = 0

    def failed(self, ran_ms: int) -> int | None:
        """Return the delay before the restart in milliseconds; None for no restart."""
        if ran_ms >= self._policy.reset_after_ms:
            self.failures = 0
        limit = self._policy.max_restarts
        if limit is not None and self.failures >= limit:
            return None
        wait_ms = self._backoff.backoff_ms(self.failures, self._random)
        self.failures += 1
        return max(1, wait_ms)
