"""The settings of a topic, under Kafka's names (Kafka: LogConfig)."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

from groupsdk.broker.settings.declaration import (
    DOUBLE,
    INT,
    LIST,
    LONG,
    TRUE_FALSE,
    Setting,
    Settings,
    setting,
    value_text,
)
from groupsdk.broker.settings.table import SETTINGS, TOPIC_DEFAULTS
from groupsdk.error_code import ErrorCode
from groupsdk.errors import GroupSdkError
from groupsdk.lazy_imports import override


_REPLICAS: Final = re.compile(r"\d+:\d+")
_TYPE_NAMES: Final = {INT: "INT", LONG: "LONG", DOUBLE: "DOUBLE"}
_POLICIES: Final = ("compact", "delete")
_LEAST_SEGMENT_BYTES: Final = 1024 * 1024
_NO_REPLICATION: Final = "without effect: nothing is replicated."
_NO_COMPRESSION: Final = "without effect: batches stay as their producers compressed them."
_NO_TIERS: Final = "without effect: there is no tiered storage."


class InvalidLogConfigError(GroupSdkError, ValueError):
    """A topic setting is unknown, or its value is not allowed."""

    error_code: ClassVar[ErrorCode] = ErrorCode.INVALID_CONFIG


class _KeptTopicSettings(Settings):
    """The settings that clients give a topic, and that are checked, kept and described, but have no effect."""

    compression_gzip_level: int = setting(
        -1, f"The compression level for gzip, from 1 to 9; {_NO_COMPRESSION}", -1, 9
    )
    compression_lz4_level: int = setting(
        9, f"The compression level for lz4; {_NO_COMPRESSION}", 1, 17
    )
    compression_zstd_level: int = setting(
        3, f"The compression level for zstd; {_NO_COMPRESSION}", -131_072, 22
    )
    follower_replication_throttled_replicas: str = setting(
        "",
        f"The replicas whose replication is throttled on followers; {_NO_REPLICATION}",
        kind=LIST,
    )
    leader_replication_throttled_replicas: str = setting(
        "",
        f"The replicas whose replication is throttled on the leader; {_NO_REPLICATION}",
        kind=LIST,
    )
    local_retention_bytes: int = setting(
        -2, f"The size of a partition's log on the local disk; {_NO_TIERS}", -2, kind=LONG
    )
    local_retention_ms: int = setting(
        -2, f"How long segments are kept on the local disk; {_NO_TIERS}", -2, kind=LONG
    )
    unclean_leader_election_enable: bool = setting(
        False, f"Whether a replica that is not in sync may become the leader; {_NO_REPLICATION}"
    )
    # Kafka refuses to set these without remote storage, as this broker does
    remote_log_copy_disable: bool = setting(
        False, f"Whether tiered storage stops copying segments; {_NO_TIERS}", choices=("false",)
    )
    remote_log_delete_on_disable: bool = setting(
        False,
        f"Whether remote segments are deleted when tiered storage is disabled; {_NO_TIERS}",
        choices=("false",),
    )
    remote_storage_enable: bool = setting(
        False, f"Whether tiered storage is enabled; {_NO_TIERS}", choices=("false",)
    )


_KEPT: Final = {name.replace("_", "."): row for name, row in _KeptTopicSettings.ROWS.items()}
TOPIC_SETTINGS: Final = dict(
    sorted({**{key: SETTINGS[name] for key, name in TOPIC_DEFAULTS.items()}, **_KEPT}.items())
)
"""Every setting of a topic by its dotted key. Those with a default of the broker's are the broker's rows."""
FIXED: Final = {key: "false" for key, row in _KEPT.items() if row.choices}
"""The settings that need remote storage, with their only value."""


class LogConfig:
    """The settings of a topic, `segment.bytes` as `segment_bytes`; immutable.

    `parse` takes what clients send, with Kafka's bounds; the constructor checks nothing, so that tests can have small
    segments. The table has the meaning and the default of each setting.
    """

    cleanup_policy: tuple[str, ...]
    compression_type: str
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    index_interval_bytes: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_type: str
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    kept: Mapping[str, str]
    """The settings without effect, by dotted key."""

    def __init__(self, **settings: Any) -> None:
        unknown = settings.keys() - _DEFAULTS.keys()
        if unknown:
            raise TypeError(f"unknown topic settings: {', '.join(sorted(unknown))}")
        vars(self).update(_DEFAULTS | settings)

    @override
    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a LogConfig cannot be changed: {name}")

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogConfig) and vars(self) == vars(other)

    @override
    def __hash__(self) -> int:
        return hash(tuple(self.properties().values()))

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
        values = dict(vars(defaults or cls()))
        kept = dict(values.pop("kept"))
        for key, text in properties.items():
            if key in FIXED:
                _check_fixed(key, text)
            elif key in _KEPT:
                kept[key] = value_text(_value(key, _KEPT[key], text))
            elif key in TOPIC_DEFAULTS or key == "internal.segment.bytes":
                name = key.removeprefix("internal.")
                values[_FIELDS[name]] = _value(key, TOPIC_SETTINGS[name], text)
            else:
                raise InvalidLogConfigError(f"unknown topic configuration {key!r}")
        config = cls(kept=kept, **values)
        if config.max_compaction_lag_ms < config.min_compaction_lag_ms:
            raise InvalidLogConfigError(
                f"min.compaction.lag.ms={config.min_compaction_lag_ms} must not be greater than"
                f" max.compaction.lag.ms={config.max_compaction_lag_ms}"
            )
        return config

    def properties(self) -> dict[str, str]:
        """Return every setting as Kafka prints it, by its dotted key."""
        return {
            key: self.kept[key] if key in _KEPT else value_text(getattr(self, _FIELDS[key]))
            for key in TOPIC_SETTINGS
        }

    @property
    def compact(self) -> bool:
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


_FIELDS: Final = {key: key.replace(".", "_") for key in TOPIC_DEFAULTS}
_DEFAULTS: Final[dict[str, Any]] = {
    **{_FIELDS[key]: SETTINGS[name].default for key, name in TOPIC_DEFAULTS.items()},
    "cleanup_policy": ("delete",),
    "kept": MappingProxyType({key: value_text(row.default) for key, row in _KEPT.items()}),
}


def topic_defaults(config: Settings) -> LogConfig:
    """Return the settings of topics without settings of their own, from those of the broker."""
    texts = config.as_texts()
    entries = {key: texts[name] for key, name in TOPIC_DEFAULTS.items()}
    # the broker's setting may be smaller than the minimum of a topic, as in Kafka's tests
    return LogConfig.parse({"internal.segment.bytes": entries.pop("segment.bytes"), **entries})


def _check_fixed(key: str, text: str) -> None:
    if text.strip() != FIXED[key]:
        raise InvalidLogConfigError(
            f"{key}={text!r} is not supported: it must be {FIXED[key]!r}, as there is no tiered storage"
        )


def _value(key: str, row: Setting, text: str) -> Any:
    if key == "cleanup.policy":
        names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        for name in names:
            _one_of(key, name, _POLICIES)
        return names
    if row.choices:
        return _one_of(key, text, row.choices)
    if row.config_type == LIST:
        return _throttled_replicas(key, text)
    if row.kind is bool:
        found = TRUE_FALSE.get(text.strip().lower())
        if found is None:
            raise _invalid(key, text, "Expected value to be either true or false")
        return found
    return _number(key, row, text)


def _number(key: str, row: Setting, text: str) -> float:
    try:
        value = row.kind(text.strip())
    except ValueError:
        reason = f"Not a number of type {_TYPE_NAMES[row.config_type]}"
        raise _invalid(key, text, reason) from None
    low = _LEAST_SEGMENT_BYTES if key == "segment.bytes" else row.low
    if value < low:
        raise _invalid(key, text, f"Value must be at least {low}")
    # written so that NaN fails
    if not value <= row.high:
        raise _invalid(key, text, f"Value must be no more than {row.high}")
    if key == "compression.gzip.level" and value == 0:
        raise _invalid(key, text, "Value must be between 1 and 9 or equal to -1")
    number: float = value
    return number


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
