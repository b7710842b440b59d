"""Hold the settings of a transaction coordinator, under Kafka's configuration names."""

from dataclasses import dataclass, fields

from groupsdk.errors import ConfigError
from groupsdk.limits import MAX_INT32


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """The settings of one transaction coordinator; times are milliseconds.

    Raises:
        ConfigError: a value is out of bounds.
    """

    transaction_max_timeout_ms: int = 900_000
    """The longest timeout that a producer may ask for."""
    transactional_id_expiration_ms: int = 604_800_000
    """How long an id without a transaction is remembered."""
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    """How often transactions that are open for too long are looked for."""
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    """How often ids that may be forgotten are looked for."""
    transaction_version: int = 2
    """The feature of this name: from 1 on the log has its flexible values, from 2 on the coordinator
    raises the epoch at every end of a transaction (KIP-890)."""
    offsets_topic_num_partitions: int = 50
    """Into how many partitions `__consumer_offsets` is divided."""
    marker_retry_backoff_ms: int = 50
    """The wait before markers that failed are written again; doubles up to the next one. Our own name."""
    marker_retry_backoff_max_ms: int = 1_000
    """The longest wait before markers are written again. Our own name."""

    def __post_init__(self) -> None:
        for each in fields(self):
            minimum, maximum = _BOUNDS.get(each.name, (1, MAX_INT32))
            value = getattr(self, each.name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise ConfigError(f"{_kafka_name(each.name)} must be a whole number, not {value!r}")
            if not minimum <= value <= maximum:
                raise ConfigError(
                    f"{_kafka_name(each.name)} is {value}; it must be {minimum} to {maximum}"
                )
        if self.marker_retry_backoff_max_ms < self.marker_retry_backoff_ms:
            raise ConfigError(
                f"marker.retry.backoff.max.ms ({self.marker_retry_backoff_max_ms}) must not be less"
                f" than marker.retry.backoff.ms ({self.marker_retry_backoff_ms})"
            )


_BOUNDS = {"transaction_version": (0, 2)}


def _kafka_name(name: str) -> str:
    return name.replace("_", ".")
