"""The settings of a transaction coordinator, under Kafka's configuration names."""

from dataclasses import dataclass, fields

from groupsdk.errors import ConfigError
from groupsdk.limits import MAX_INT32


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """The settings of one transaction coordinator; times are in milliseconds.

    Raises:
        ConfigError: a value is out of its bounds or not an integer.
    """

    transaction_max_timeout_ms: int = 900_000
    """The longest transaction timeout that a producer may request."""
    transactional_id_expiration_ms: int = 604_800_000
    """How long a transactional id without a transaction is kept."""
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    """How often transactions that exceed their timeout are aborted."""
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    """How often expired transactional ids are removed."""
    transaction_version: int = 2
    """The feature of this name, 0 to 2: from 1 on records have flexible values, from 2 on every end of a
    transaction raises the epoch (KIP-890).
    """
    offsets_topic_num_partitions: int = 50
    """The number of partitions of `__consumer_offsets`."""
    marker_retry_backoff_ms: int = 50
    """The wait before the first retry of failed markers, doubling with each retry; not a Kafka setting."""
    marker_retry_backoff_max_ms: int = 1_000
    """The longest wait before markers are retried; not a Kafka setting."""

    def __post_init__(self) -> None:
        for each in fields(self):
            minimum, maximum = _BOUNDS.get(each.name, (1, MAX_INT32))
            value = getattr(self, each.name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise ConfigError(f"{_kafka_name(each.name)} must be an integer, not {value!r}")
            if not minimum <= value <= maximum:
                raise ConfigError(
                    f"{_kafka_name(each.name)} must be from {minimum} to {maximum}, not {value}"
                )
        if self.marker_retry_backoff_max_ms < self.marker_retry_backoff_ms:
            raise ConfigError(
                f"marker.retry.backoff.max.ms ({self.marker_retry_backoff_max_ms}) must not be less"
                f" than marker.retry.backoff.ms ({self.marker_retry_backoff_ms})"
            )


_BOUNDS = {"transaction_version": (0, 2)}


def _kafka_name(name: str) -> str:
    return name.replace("_", ".")
