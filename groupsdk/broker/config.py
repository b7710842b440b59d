"""The settings of a broker, under Kafka's configuration names."""

from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from groupsdk.errors import ConfigError
from groupsdk.limits import MAX_INT32


_MAX_INT64: Final = 2**63 - 1
_DAY_MS: Final = 86_400_000
_MIB: Final = 1024 * 1024
_TRUE_FALSE: Final = {"true": True, "false": False}
_SECRETS: Final = frozenset({"ssl_key_password"})


class BrokerConfig:
    """The settings of a broker, `group.max.size` as `group_max_size`; Kafka's defaults unless stated otherwise.

    Build it with `of`, which accepts Kafka's dotted keys as well as keywords. All nodes of a cluster share it, except
    for their ports. Immutable. `setting_types.broker_documentation` describes each setting; names end in their unit.
    """

    # Not a dataclass: creating one with so many fields takes 7 ms, half as long as Python's own start.

    # listeners
    listeners: str = "PLAINTEXT://127.0.0.1:0"
    """`NAME://host:port`, comma separated; port 0 binds a free one. Kafka's default is all interfaces."""
    advertised_listeners: str = ""
    listener_security_protocol_map: str = (
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    )
    broker_rack: str = ""
    socket_request_max_bytes: int = 100 * _MIB
    socket_listen_backlog_size: int = 1024
    """Kafka's default is 50: a burst of members would wait a second for a repeated SYN."""
    queued_max_request_bytes: int = 256 * _MIB
    """What all requests together may hold in memory while they arrive. Kafka's default is no limit.

    Where answers that clients do not read hold more than this, a fetch gives one batch at a time.
    """
    max_connections: int = MAX_INT32
    max_connections_per_ip: int = MAX_INT32
    connections_max_idle_ms: int = 600_000
    # security
    sasl_enabled_mechanisms: str = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
    """Kafka's default is GSSAPI, which is not supported."""
    sasl_oauthbearer_unsecured: bool = False
    """Whether OAUTHBEARER accepts unsigned tokens (for tests); not a Kafka setting."""
    connections_max_reauth_ms: int = 0
    ssl_keystore_location: str = ""
    """PEM file of the broker's certificate chain and, unless ssl_key_location is set, its key."""
    ssl_key_location: str = ""
    ssl_key_password: str = ""
    ssl_keystore_type: str = "PEM"
    """Kafka's default is JKS, which is not supported."""
    ssl_truststore_type: str = "PEM"
    ssl_truststore_location: str = ""
    """PEM file of the authorities whose client certificates are accepted."""
    ssl_client_auth: str = "none"
    authorizer_class_name: str = ""
    """Any value enables authorization by ACLs; "" disables it."""
    super_users: str = ""
    """`User:name`, separated by semicolons."""
    allow_everyone_if_no_acl_found: bool = False
    # topics and their logs
    auto_create_topics_enable: bool = True
    num_partitions: int = 1
    default_replication_factor: int = 1
    delete_topic_enable: bool = True
    message_max_bytes: int = 1_048_588
    fetch_max_bytes: int = 55 * _MIB
    max_incremental_fetch_session_cache_slots: int = 1_000
    compression_type: str = "producer"
    min_insync_replicas: int = 1
    log_cleanup_policy: str = "delete"
    log_cleaner_enable: bool = True
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_delete_retention_ms: int = _DAY_MS
    log_cleaner_min_cleanable_ratio: float = 0.5
    log_cleaner_min_compaction_lag_ms: int = 0
    log_cleaner_max_compaction_lag_ms: int = _MAX_INT64
    log_flush_interval_messages: int = _MAX_INT64
    log_flush_interval_ms: int = _MAX_INT64
    log_flush_scheduler_interval_ms: int = 3_000
    """How often log_flush_interval_ms is checked; Kafka's default is never."""
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_index_interval_bytes: int = 4096
    log_index_size_max_bytes: int = 10 * _MIB
    log_message_timestamp_type: str = "CreateTime"
    log_message_timestamp_before_max_ms: int = _MAX_INT64
    log_message_timestamp_after_max_ms: int = 3_600_000
    log_preallocate: bool = False
    log_retention_bytes: int = -1
    log_retention_ms: int = 7 * _DAY_MS
    log_retention_check_interval_ms: int = 300_000
    log_roll_ms: int = 7 * _DAY_MS
    log_roll_jitter_ms: int = 0
    log_segment_bytes: int = 1024 * _MIB
    log_segment_delete_delay_ms: int = 60_000
    # groups and offsets
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = MAX_INT32
    group_consumer_assignors: str = "uniform,range"
    """The assignors of consumer groups, the default one first: Kafka's and those of `assignors` by name, custom
    ones as `module:Class`.
    """
    group_consumer_assignor_timeout_ms: int = 5_000
    """How long an assignor may run before it is abandoned; not a Kafka setting."""
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_consumer_max_size: int = MAX_INT32
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_release: str = "4.3"
    """The Kafka release to follow in consumer groups and committed offsets where releases differ; not a Kafka
    setting.
    """
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offsets_commit_timeout_ms: int = 5_000
    offsets_load_buffer_size: int = 5 * _MIB
    offsets_topic_compression_codec: int = 0
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 1
    offsets_topic_segment_bytes: int = 100 * _MIB
    # transactions
    transaction_max_timeout_ms: int = 900_000
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_replication_factor: int = 1
    transaction_state_log_segment_bytes: int = 100 * _MIB
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transaction_partition_verification_enable: bool = True
    transactional_id_expiration_ms: int = 7 * _DAY_MS
    producer_id_expiration_ms: int = _DAY_MS
    producer_id_expiration_check_interval_ms: int = 600_000

    def __init__(self, **settings: Any) -> None:
        """Create it from settings named with underscores and of the right type; `of` also parses strings.

        Args:
            **settings: the settings that differ from the defaults.

        Raises:
            ConfigError: a setting is unknown, or out of its bounds.
        """
        for name, value in settings.items():
            if name not in KINDS:
                raise ConfigError(_unknown(name))
            object.__setattr__(self, name, value)
        self._check()

    @override
    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a BrokerConfig cannot be changed: {name}")

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, BrokerConfig) and vars(self) == vars(other)

    @override
    def __hash__(self) -> int:
        return hash(tuple(sorted(vars(self).items())))

    @override
    def __repr__(self) -> str:
        shown = (f"{k}={v!r}" for k, v in sorted(vars(self).items()) if k not in _SECRETS)
        return f"BrokerConfig({', '.join(shown)})"

    def _check(self) -> None:
        for name, (low, high) in _BOUNDS.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigError(f"{dotted(name)} must be from {low} to {high}, not {value}")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigError(
                    f"{dotted(name)} must be one of {', '.join(choices)}, not {getattr(self, name)!r}"
                )
        for name in ("session_timeout_ms", "heartbeat_interval_ms", "assignment_interval_ms"):
            low = getattr(self, f"group_consumer_min_{name}")
            high = getattr(self, f"group_consumer_max_{name}")
            value = getattr(self, f"group_consumer_{name}")
            if not low <= value <= high:
                key = f"group.consumer.{dotted(name)}"
                raise ConfigError(f"{key} must be from {low} to {high}, not {value}")
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise ConfigError(
                f"group.consumer.heartbeat.interval.ms={self.group_consumer_heartbeat_interval_ms} must be less"
                f" than group.consumer.session.timeout.ms={self.group_consumer_session_timeout_ms}"
            )
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ConfigError(
                f"group.min.session.timeout.ms={self.group_min_session_timeout_ms} must not be greater"
                f" than group.max.session.timeout.ms={self.group_max_session_timeout_ms}"
            )

    @classmethod
    def of(cls, settings: Mapping[str, Any] | None = None, /, **keywords: Any) -> "BrokerConfig":
        """Build a configuration from Kafka's dotted keys, keywords, or both.

        Args:
            settings: ``{"group.initial.rebalance.delay.ms": 0}``; strings are parsed like Kafka's properties.
            **keywords: ``group_initial_rebalance_delay_ms=0``; take precedence over `settings`.

        Raises:
            ConfigError: a key is unknown (with the closest known one), or a value is invalid.
        """
        values: dict[str, Any] = {}
        for key, value in {**(settings or {}), **keywords}.items():
            name = key.replace(".", "_")
            if name not in KINDS:
                raise ConfigError(_unknown(key))
            values[name] = read_value(key, KINDS[name], value)
        return cls(**values)

    def check_replication(self, nodes: int) -> None:
        """Check that no topic is to have more replicas than there are nodes.

        Raises:
            ConfigError: a replication factor is above the number of nodes.
        """
        for name, bounds in _BOUNDS.items():
            if bounds is _REPLICATION and getattr(self, name) > nodes:
                raise ConfigError(
                    f"{dotted(name)} must be from 1 to {nodes}, the number of nodes, not {getattr(self, name)}"
                )

    def as_texts(self) -> dict[str, str]:
        """Return all settings as Kafka shows them, by dotted key; secrets are omitted."""
        return {
            dotted(name): value_text(getattr(self, name)) for name in KINDS if name not in _SECRETS
        }


KINDS: Final[dict[str, type]] = {
    name: type(getattr(BrokerConfig, name))
    for name in BrokerConfig.__annotations__
    if hasattr(BrokerConfig, name)
}
"""The type of each setting, by its name with underscores."""

_CHOICES: Final = {
    "ssl_client_auth": ("none", "requested", "required"),
    "ssl_keystore_type": ("PEM",),
    "ssl_truststore_type": ("PEM",),
    "log_message_timestamp_type": ("CreateTime", "LogAppendTime"),
    "compression_type": ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    "group_consumer_migration_policy": ("bidirectional", "upgrade", "downgrade", "disabled"),
    "group_consumer_release": ("4.3", "4.4"),
    "log_cleanup_policy": ("delete", "compact", "compact,delete", "delete,compact"),
}
_POSITIVE: Final = (1, MAX_INT32)
_LEAST_ZERO: Final = (0, MAX_INT32)
_REPLICATION: Final = (1, 2**15 - 1)
_BOUNDS: Final = {
    "socket_request_max_bytes": _POSITIVE,
    "socket_listen_backlog_size": _POSITIVE,
    "queued_max_request_bytes": (1, _MAX_INT64),
    "max_connections": _LEAST_ZERO,
    "max_connections_per_ip": _LEAST_ZERO,
    "connections_max_idle_ms": (1, _MAX_INT64),
    "num_partitions": _POSITIVE,
    "default_replication_factor": _REPLICATION,
    "message_max_bytes": _LEAST_ZERO,
    "fetch_max_bytes": (1024, MAX_INT32),
    "max_incremental_fetch_session_cache_slots": _LEAST_ZERO,
    "log_cleaner_backoff_ms": (0, _MAX_INT64),
    "log_retention_check_interval_ms": (1, _MAX_INT64),
    "log_flush_scheduler_interval_ms": (1, _MAX_INT64),
    "log_flush_offset_checkpoint_interval_ms": (1, _MAX_INT64),
    "producer_id_expiration_check_interval_ms": (1, _MAX_INT64),
    "log_segment_bytes": (14, MAX_INT32),
    "group_min_session_timeout_ms": _POSITIVE,
    "group_max_session_timeout_ms": _POSITIVE,
    "group_initial_rebalance_delay_ms": _LEAST_ZERO,
    "group_max_size": _POSITIVE,
    "group_consumer_assignor_timeout_ms": _POSITIVE,
    "group_consumer_max_size": _POSITIVE,
    "group_consumer_min_session_timeout_ms": _POSITIVE,
    "group_consumer_max_session_timeout_ms": _POSITIVE,
    "group_consumer_min_heartbeat_interval_ms": _POSITIVE,
    "group_consumer_max_heartbeat_interval_ms": _POSITIVE,
    "group_consumer_min_assignment_interval_ms": _LEAST_ZERO,
    "group_consumer_max_assignment_interval_ms": _LEAST_ZERO,
    "group_consumer_regex_refresh_interval_ms": (10_000, MAX_INT32),
    "offset_metadata_max_bytes": _LEAST_ZERO,
    "offsets_retention_minutes": _POSITIVE,
    "offsets_retention_check_interval_ms": (1, _MAX_INT64),
    "offsets_commit_timeout_ms": _POSITIVE,
    "offsets_load_buffer_size": _POSITIVE,
    "offsets_topic_compression_codec": (0, 4),
    "offsets_topic_num_partitions": _POSITIVE,
    "offsets_topic_replication_factor": _REPLICATION,
    "transaction_state_log_num_partitions": _POSITIVE,
    "transaction_state_log_replication_factor": _REPLICATION,
    "transaction_max_timeout_ms": _POSITIVE,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": _POSITIVE,
    "transaction_remove_expired_transaction_cleanup_interval_ms": _POSITIVE,
    "transactional_id_expiration_ms": _POSITIVE,
    "producer_id_expiration_ms": _POSITIVE,
}


def dotted(name: str) -> str:
    """Return the dotted name of a setting, as Kafka writes it."""
    return name.replace("_", ".")


def value_text(value: Any) -> str:
    """Format a value as Kafka shows it: booleans in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_value(key: str, kind: type, value: Any) -> Any:
    """Parse a value that may be a string, as in a properties file.

    Args:
        key: the dotted key, for error messages.
        kind: the type of the setting: str, bool, int or float.
        value: the value; for str also a list or tuple, which is joined with commas.

    Raises:
        ConfigError: the value is not of that type.
    """
    given = value.strip() if isinstance(value, str) else value
    if kind is str and isinstance(given, str):
        return given
    if kind is str and isinstance(given, (list, tuple)):
        return ",".join(str(each) for each in given)
    if kind is bool:
        read = given if isinstance(given, bool) else _TRUE_FALSE.get(str(given).lower())
        if read is not None:
            return read
    elif kind in (int, float) and not isinstance(given, bool):
        try:
            number = kind(given)
        except (TypeError, ValueError):
            number = None
        if number is not None and (isinstance(given, str) or number == given):
            return number
    names = {str: "a string", bool: "true or false", int: "an integer", float: "a number"}
    raise ConfigError(f"{key} must be {names[kind]}, not {value!r}")


def _unknown(key: str) -> str:
    from difflib import get_close_matches  # only needed for an error

    close = get_close_matches(key.replace("_", "."), [dotted(name) for name in KINDS], n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"unknown broker setting {key}{hint}"
