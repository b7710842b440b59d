"""The topic settings that logs follow, under Kafka's names (Kafka: LogConfig)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from groupsdk.broker.log.errors import InvalidLogConfigError
from groupsdk.limits import MAX_INT32


_MAX_INT64: Final = 2**63 - 1
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_MIB: Final = 1024 * 1024
_POLICIES: Final = ("compact", "delete")
_COMPRESSIONS: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_ZSTD_LOWEST: Final = -131_072
_REPLICAS: Final = re.compile(r"\d+:\d+")
_TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
_TRUE_FALSE: Final = {"true": True, "false": False}

FIXED: Final = {
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
}
"""Kafka's settings that need remote storage, which is missing here, with its defaults.
They are described to clients; any other value is refused, as Kafka does without remote storage."""

_RANGES: Final[dict[str, tuple[float, float]]] = {
    "segment_bytes": (_MIB, MAX_INT32),
    "internal_segment_bytes": (14, MAX_INT32),
    "segment_ms": (1, _MAX_INT64),
    "segment_jitter_ms": (0, _MAX_INT64),
    "segment_index_bytes": (4, MAX_INT32),
    "flush_messages": (1, _MAX_INT64),
    "flush_ms": (0, _MAX_INT64),
    "retention_bytes": (-1, _MAX_INT64),
    "retention_ms": (-1, _MAX_INT64),
    "max_message_bytes": (0, MAX_INT32),
    "index_interval_bytes": (0, MAX_INT32),
    "delete_retention_ms": (0, _MAX_INT64),
    "file_delete_delay_ms": (0, _MAX_INT64),
    "min_compaction_lag_ms": (0, _MAX_INT64),
    "max_compaction_lag_ms": (1, _MAX_INT64),
    "min_cleanable_dirty_ratio": (0, 1),
    "min_insync_replicas": (1, MAX_INT32),
    "message_timestamp_before_max_ms": (0, _MAX_INT64),
    "message_timestamp_after_max_ms": (0, _MAX_INT64),
    "compression_gzip_level": (-1, 9),
    "compression_lz4_level": (1, 17),
    "compression_zstd_level": (_ZSTD_LOWEST, 22),
    "local_retention_bytes": (-2, _MAX_INT64),
    "local_retention_ms": (-2, _MAX_INT64),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The settings of a topic, `segment.bytes` as `segment_bytes`, with Kafka's defaults.

    `parse` takes what clients send, with Kafka's bounds; the constructor checks nothing, so that tests can
    have small segments.
    """

    cleanup_policy: tuple[str, ...] = ("delete",)
    """"delete", "compact" or both; empty: keep everything."""
    compression_type: str = "producer"
    """Only described to clients, as are the levels: batches stay as their producers compressed them."""
    compression_gzip_level: int = -1
    """The compression level for gzip, from 1 to 9; -1: gzip's default."""
    compression_lz4_level: int = 9
    """The compression level for lz4."""
    compression_zstd_level: int = 3
    """The compression level for zstd."""
    delete_retention_ms: int = _DAY_MS
    """How long tombstones and transaction markers stay after they were first compacted."""
    file_delete_delay_ms: int = 60_000
    """Only described to clients: files are deleted at once, as no other process reads them."""
    flush_messages: int = _MAX_INT64
    """The number of unsynced records at which an append syncs."""
    flush_ms: int = _MAX_INT64
    """How long appended records may stay unsynced."""
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    """Only described to clients: nothing is replicated. `partition:broker`, or `*` for all."""
    index_interval_bytes: int = 4096
    """Bytes of batches between two entries of the offset and time index."""
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    """As `follower_replication_throttled_replicas`, for leaders."""
    local_retention_bytes: int = -2
    """Only described to clients: all storage is local. -2: as `retention_bytes`."""
    local_retention_ms: int = -2
    """Only described to clients, as `local_retention_bytes`. -2: as `retention_ms`."""
    max_compaction_lag_ms: int = _MAX_INT64
    """The age of an uncompacted record at which the log is compacted whatever the dirty ratio."""
    max_message_bytes: int = _MIB + 12
    """The largest batch, as stored."""
    message_timestamp_type: str = "CreateTime"
    """"CreateTime": records keep their producer's timestamps; "LogAppendTime": they get the broker's time."""
    message_timestamp_before_max_ms: int = _MAX_INT64
    """How far before the broker's time a producer's timestamp may be."""
    message_timestamp_after_max_ms: int = _HOUR_MS
    """How far after the broker's time a producer's timestamp may be."""
    min_cleanable_dirty_ratio: float = 0.5
    """The share of uncompacted bytes, 0 to 1, above which the log is compacted."""
    min_compaction_lag_ms: int = 0
    """The age below which records are not compacted; 0: none."""
    min_insync_replicas: int = 1
    """Only described to clients: a partition has one replica."""
    preallocate: bool = False
    """Only described to clients."""
    retention_bytes: int = -1
    """The size of a partition above which its oldest segments are deleted; -1: unlimited."""
    retention_ms: int = 7 * _DAY_MS
    """The age above which segments are deleted; -1: unlimited."""
    segment_bytes: int = 1024 * _MIB
    """The size at which a segment is closed; also the largest append."""
    segment_index_bytes: int = 10 * _MIB
    """The largest offset index; a segment whose index is full is closed."""
    segment_jitter_ms: int = 0
    """By how much at most `segment_ms` is shortened, differently for each segment."""
    segment_ms: int = 7 * _DAY_MS
    """The age at which a segment is closed, from its first record's timestamp."""
    unclean_leader_election_enable: bool = False
    """Only described to clients."""

    @classmethod
    def parse(
        cls, properties: Mapping[str, str], defaults: "LogConfig | None" = None
    ) -> "LogConfig":
        """Parse topic settings as sent by clients.

        Args:
            properties: values by Kafka's dotted keys. `internal.segment.bytes` sets segments of less than 1 MiB, as
                Kafka's own tests do.
            defaults: the values of keys that are missing; None: Kafka's.

        Raises:
            InvalidLogConfigError: a key is unknown, or its value is not allowed; the message names it.
        """
        base = defaults or cls()
        values = {field.name: getattr(base, field.name) for field in fields(cls)}
        for key, text in properties.items():
            if key in FIXED:
                _check_fixed(key, text)
                continue
            name = key.replace(".", "_")
            if "_" in key or (name not in values and name != "internal_segment_bytes"):
                raise InvalidLogConfigError(f"unknown topic configuration {key!r}")
            value = _value(key, name, text)
            values["segment_bytes" if name == "internal_segment_bytes" else name] = value
        config = cls(**values)
        if config.max_compaction_lag_ms < config.min_compaction_lag_ms:
            raise InvalidLogConfigError(
                f"min.compaction.lag.ms={config.min_compaction_lag_ms} must not be greater than"
                f" max.compaction.lag.ms={config.max_compaction_lag_ms}"
            )
        return config

    def properties(self) -> dict[str, str]:
        """Return every setting as Kafka prints it, by its dotted key, including fixed ones."""
        own = {
            field.name.replace("_", "."): _text(getattr(self, field.name)) for field in fields(self)
        }
        return own | FIXED

    @property
    def compact(self) -> bool:
        """Whether the topic is compacted."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """Whether old segments are deleted by time and size."""
        return "delete" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """The age in milliseconds at which a segment is closed; bounded by max.compaction.lag.ms if compacted."""
        if self.compact:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    @property
    def is_log_append_time(self) -> bool:
        """Whether records get the time of their append instead of their producer's timestamp."""
        return self.message_timestamp_type == "LogAppendTime"


_KINDS: Final = {field.name: field.type for field in fields(LogConfig)}


def _check_fixed(key: str, text: str) -> None:
    if text.strip() != FIXED[key]:
        raise InvalidLogConfigError(
            f"{key}={text!r} is not supported: it must be {FIXED[key]!r}, as there is no tiered storage"
        )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _value(key: str, name: str, text: str) -> Any:
    if name == "cleanup_policy":
        return _policy(key, text)
    if name == "compression_type":
        return _one_of(key, text, _COMPRESSIONS)
    if name == "message_timestamp_type":
        return _one_of(key, text, _TIMESTAMP_TYPES)
    if name.endswith("_throttled_replicas"):
        return _throttled_replicas(key, text)
    kind = _KINDS.get(name, int)
    if kind is bool:
        found = _TRUE_FALSE.get(text.strip().lower())
        if found is None:
            raise _invalid(key, text, "Expected value to be either true or false")
        return found
    return _number(key, name, text, float if kind is float else int)


def _number(key: str, name: str, text: str, kind: type[float] | type[int]) -> float:
    low, high = _RANGES[name]
    try:
        value = kind(text.strip())
    except ValueError:
        name_of_kind = "DOUBLE" if kind is float else "INT" if high <= MAX_INT32 else "LONG"
        raise _invalid(key, text, f"Not a number of type {name_of_kind}") from None
    if value < low:
        raise _invalid(key, text, f"Value must be at least {low}")
    # written so that NaN fails
    if not value <= high:
        raise _invalid(key, text, f"Value must be no more than {high}")
    if name == "compression_gzip_level" and value == 0:
        raise _invalid(key, text, "Value must be between 1 and 9 or equal to -1")
    return value


def _invalid(key: str, text: str, reason: str) -> InvalidLogConfigError:
    """Return the error that Kafka's `ConfigException` would be, in its words: tools show them to users."""
    return InvalidLogConfigError(f"Invalid value {text} for configuration {key}: {reason}")


def _throttled_replicas(key: str, text: str) -> tuple[str, ...]:
    found = tuple(each.strip() for each in text.split(",") if each.strip())
    if found == ("*",) or all(map(_REPLICAS.fullmatch, found)):
        return found
    raise _invalid(
        key,
        f"[{', '.join(found)}]",
        f"{key} must be the literal '*' or a list of replicas in the following format:"
        " [partitionId]:[brokerId],[partitionId]:[brokerId],...",
    )


def _one_of(key: str, text: str, allowed: tuple[str, ...]) -> str:
    value = text.strip()
    if value not in allowed:
        raise _invalid(key, text, f"String must be one of: {', '.join(allowed)}")
    return value


def _policy(key: str, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        _one_of(key, name, _POLICIES)
    return names
