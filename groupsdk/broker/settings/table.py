"""Every setting of the broker, each declared once: name, default, effect, bounds and scope.

The names are Kafka's, with underscores, and end in their unit; the defaults are Kafka's unless stated otherwise.
`GroupConfig` and `TransactionConfig` are the parts that their coordinators read, and `BrokerConfig` is all of them.
"""

from enum import Enum
from typing import Final

from groupsdk.broker.settings.declaration import (
    LIST,
    LONG,
    MAX_INT64,
    PASSWORD,
    SHORT,
    Settings,
    dotted,
    setting,
)
from groupsdk.errors import ConfigError
from groupsdk.lazy_imports import override
from groupsdk.limits import MAX_INT32


_DAY_MS: Final = 86_400_000
_MIB: Final = 1024 * 1024
_MAX_REPLICAS: Final = 2**15 - 1


class ListenerConfig(Settings):
    """Listeners, connections and security."""

    # Kafka's default is all interfaces
    listeners: str = setting(
        "PLAINTEXT://127.0.0.1:0",
        "The addresses to listen on, NAME://host:port each, separated by commas; port 0 binds a free one.",
        kind=LIST,
    )
    advertised_listeners: str = setting(
        "",
        "The addresses that clients are given to connect to, if they differ from listeners.",
        kind=LIST,
        null=True,
    )
    listener_security_protocol_map: str = setting(
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        "The security protocol of each listener name.",
    )
    broker_rack: str = setting(
        "",
        "The rack of the broker; clients prefer to read from brokers in their own rack.",
        null=True,
    )
    socket_request_max_bytes: int = setting(100 * _MIB, "The largest request, in bytes.", 1)
    # Kafka's default is 50: a burst of members would wait a second for a repeated SYN
    socket_listen_backlog_size: int = setting(
        1024, "How many connections may wait to be accepted.", 1
    )
    # Kafka's default is no limit. Where answers that clients do not read hold more, a fetch gives one batch at a time.
    queued_max_request_bytes: int = setting(
        256 * _MIB, "The memory for requests that are being received, in bytes.", 1, kind=LONG
    )
    max_connections: int = setting(MAX_INT32, "The largest number of connections.", 0, dynamic=True)
    max_connections_per_ip: int = setting(
        MAX_INT32, "The largest number of connections from one address.", 0, dynamic=True
    )
    connections_max_idle_ms: int = setting(
        600_000, "The time after which a connection without traffic is closed.", 1, kind=LONG
    )
    # Kafka's default is GSSAPI, which is not supported
    sasl_enabled_mechanisms: str = setting(
        "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512", "The SASL mechanisms that clients may use.", kind=LIST
    )
    # not a setting of Kafka
    sasl_oauthbearer_unsecured: bool = setting(
        False, "Whether unsigned OAUTHBEARER tokens are accepted. For tests."
    )
    connections_max_reauth_ms: int = setting(
        0, "The longest time until a SASL client must re-authenticate; 0: never.", kind=LONG
    )
    ssl_keystore_location: str = setting(
        "",
        "The PEM file with the certificate chain of the broker, and its key unless ssl.key.location is set.",
        null=True,
    )
    ssl_key_location: str = setting(
        "", "The file with the private key, if it is not in the keystore.", null=True
    )
    ssl_key_password: str = setting("", "The password of the private key.", kind=PASSWORD)
    # Kafka's default for both types is JKS, which is not supported
    ssl_keystore_type: str = setting("PEM", "The format of the keystore.", choices=("PEM",))
    ssl_truststore_type: str = setting("PEM", "The format of the truststore.", choices=("PEM",))
    ssl_truststore_location: str = setting(
        "",
        "The PEM file with the authorities whose client certificates are accepted.",
        null=True,
    )
    ssl_client_auth: str = setting(
        "none",
        "Whether clients may or must present a certificate.",
        choices=("none", "requested", "required"),
    )
    authorizer_class_name: str = setting(
        "", "Enables authorization by ACLs; any value enables the built-in authorizer."
    )
    super_users: str = setting(
        "", "The principals that may do everything, User:name each, separated by semicolons."
    )
    allow_everyone_if_no_acl_found: bool = setting(
        False, "Whether everyone may use a resource that no ACL names."
    )


class TopicConfig(Settings):
    """Topics, and the defaults of their own settings."""

    auto_create_topics_enable: bool = setting(
        True, "Whether a metadata request for a missing topic creates it."
    )
    num_partitions: int = setting(1, "The number of partitions of topics created without one.", 1)
    default_replication_factor: int = setting(
        1, "The number of replicas of topics created without one.", 1, _MAX_REPLICAS
    )
    delete_topic_enable: bool = setting(True, "Whether topics can be deleted.")
    message_max_bytes: int = setting(
        1_048_588,
        "The largest batch of records, in bytes, after compression.",
        0,
        topic="max.message.bytes",
    )
    fetch_max_bytes: int = setting(
        55 * _MIB, "The largest response to a fetch request, in bytes.", 1024
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        1_000, "The largest number of incremental fetch sessions.", 0
    )
    compression_type: str = setting(
        "producer",
        "The compression of a topic's batches; 'producer' keeps that of the producer. Batches are never recompressed.",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        topic="compression.type",
    )
    min_insync_replicas: int = setting(
        1,
        "How many replicas must have a batch before acks=all is answered. A partition has one replica.",
        1,
        topic="min.insync.replicas",
    )
    # the tests of @platformatic/kafka compare the first sentence with Kafka's
    log_cleanup_policy: str = setting(
        "delete",
        "This config designates the retention policy to use on log segments."
        " What happens to old segments: 'delete', 'compact' or both.",
        choices=("delete", "compact", "compact,delete", "delete,compact"),
        kind=LIST,
        topic="cleanup.policy",
    )
    log_cleaner_enable: bool = setting(True, "Whether logs are compacted.")
    log_cleaner_backoff_ms: int = setting(
        15_000, "How often the broker looks for logs to compact.", 0, kind=LONG, dynamic=True
    )
    log_cleaner_delete_retention_ms: int = setting(
        _DAY_MS,
        "How long tombstones and transaction markers are kept after they were first compacted.",
        0,
        kind=LONG,
        topic="delete.retention.ms",
    )
    log_cleaner_min_cleanable_ratio: float = setting(
        0.5,
        "The share of a log that must be dirty before it is compacted.",
        0,
        1,
        topic="min.cleanable.dirty.ratio",
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        0,
        "The shortest time before a record may be compacted.",
        0,
        kind=LONG,
        topic="min.compaction.lag.ms",
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        MAX_INT64,
        "The longest time before a record is compacted, whatever share of the log is dirty.",
        1,
        kind=LONG,
        topic="max.compaction.lag.ms",
    )
    log_flush_interval_messages: int = setting(
        MAX_INT64,
        "The number of records after which a partition is flushed to disk.",
        1,
        kind=LONG,
        topic="flush.messages",
    )
    log_flush_interval_ms: int = setting(
        MAX_INT64,
        "The longest time before a record is flushed to disk.",
        0,
        kind=LONG,
        topic="flush.ms",
        null=True,
    )
    # Kafka's default is never
    log_flush_scheduler_interval_ms: int = setting(
        3_000, "How often the broker looks for partitions to flush.", 1, kind=LONG
    )
    log_flush_offset_checkpoint_interval_ms: int = setting(
        60_000, "How often the recovery point of each log is written.", 1, MAX_INT64
    )
    log_index_interval_bytes: int = setting(
        4096,
        "The number of bytes between two entries of an offset index.",
        0,
        topic="index.interval.bytes",
    )
    log_index_size_max_bytes: int = setting(
        10 * _MIB,
        "The largest size of an offset index, in bytes; a segment whose index is full is closed.",
        4,
        topic="segment.index.bytes",
    )
    log_message_timestamp_type: str = setting(
        "CreateTime",
        "Whether records have the producer's timestamp or that of the broker.",
        choices=("CreateTime", "LogAppendTime"),
        topic="message.timestamp.type",
    )
    log_message_timestamp_before_max_ms: int = setting(
        MAX_INT64,
        "How far a record's timestamp may be behind the broker's clock.",
        0,
        kind=LONG,
        topic="message.timestamp.before.max.ms",
    )
    log_message_timestamp_after_max_ms: int = setting(
        3_600_000,
        "How far a record's timestamp may be ahead of the broker's clock.",
        0,
        kind=LONG,
        topic="message.timestamp.after.max.ms",
    )
    log_preallocate: bool = setting(
        False,
        "Whether the file of a new segment is preallocated; without effect.",
        topic="preallocate",
    )
    log_retention_bytes: int = setting(
        -1,
        "The size of a partition above which old segments are deleted; -1: no limit.",
        -1,
        kind=LONG,
        topic="retention.bytes",
    )
    log_retention_ms: int = setting(
        7 * _DAY_MS,
        "The age at which segments are deleted; -1: no limit.",
        -1,
        kind=LONG,
        topic="retention.ms",
        null=True,
    )
    log_retention_check_interval_ms: int = setting(
        300_000, "How often the broker looks for segments to delete.", 1, kind=LONG
    )
    log_roll_ms: int = setting(
        7 * _DAY_MS,
        "The age at which a segment is closed and a new one begins, from its first record's timestamp.",
        1,
        kind=LONG,
        topic="segment.ms",
        null=True,
    )
    log_roll_jitter_ms: int = setting(
        0,
        "The largest random time that is subtracted from segment.ms.",
        0,
        kind=LONG,
        topic="segment.jitter.ms",
        null=True,
    )
    log_segment_bytes: int = setting(
        1024 * _MIB,
        "The largest size of a segment, in bytes, and so of an append.",
        14,
        topic="segment.bytes",
    )
    log_segment_delete_delay_ms: int = setting(
        60_000,
        "The delay between deleting a segment and removing its files; without effect, they are removed at once.",
        0,
        kind=LONG,
        topic="file.delete.delay.ms",
    )


class MigrationPolicy(Enum):
    """The directions in which a group with members may migrate between the classic and consumer protocols."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def upgrades(self) -> bool:
        """Whether a classic group with members may become a consumer group."""
        return self in {MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE}

    @property
    def downgrades(self) -> bool:
        """Whether a consumer group may become a classic one when its last consumer protocol member leaves."""
        return self in {MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE}


class GroupConfig(Settings):
    """Groups and committed offsets."""

    group_min_session_timeout_ms: int = setting(
        6_000, "The shortest session timeout a member of a classic group may ask for.", 1
    )
    group_max_session_timeout_ms: int = setting(
        1_800_000, "The longest session timeout a member of a classic group may ask for.", 1
    )
    group_initial_rebalance_delay_ms: int = setting(
        3_000, "How long the first rebalance of an empty group waits for more members.", 0
    )
    group_max_size: int = setting(MAX_INT32, "The largest number of members of a classic group.", 1)
    # Kafka changes it only by a restart
    group_coordinator_rebalance_protocols: str = setting(
        "classic,consumer",
        "The protocols of groups that are served; without 'consumer', its members are refused.",
        choices=("classic,consumer", "consumer,classic", "classic"),
        kind=LIST,
        dynamic=True,
    )
    group_consumer_assignors: str = setting(
        "uniform,range",
        "The assignors of consumer groups, the default one first: Kafka's and those of `assignors` by name, custom"
        " ones as `module:Class`.",
        kind=LIST,
    )
    # not a setting of Kafka
    group_consumer_assignor_timeout_ms: int = setting(
        5_000, "The longest time an assignor may take before it is abandoned.", 1
    )
    group_consumer_session_timeout_ms: int = setting(
        45_000,
        "How long after its last heartbeat a member of a consumer group is removed.",
        0,
        group="consumer.session.timeout.ms",
    )
    group_consumer_min_session_timeout_ms: int = setting(
        45_000, "The shortest session timeout a consumer group may set.", 1
    )
    group_consumer_max_session_timeout_ms: int = setting(
        60_000, "The longest session timeout a consumer group may set.", 1
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        5_000,
        "How often members of a consumer group send heartbeats.",
        0,
        group="consumer.heartbeat.interval.ms",
    )
    group_consumer_min_heartbeat_interval_ms: int = setting(
        5_000, "The shortest heartbeat interval a consumer group may set.", 1
    )
    group_consumer_max_heartbeat_interval_ms: int = setting(
        15_000, "The longest heartbeat interval a consumer group may set.", 1
    )
    group_consumer_assignment_interval_ms: int = setting(
        1_000,
        "The shortest time between two assignments of a consumer group.",
        0,
        group="consumer.assignment.interval.ms",
        dynamic=True,
    )
    group_consumer_min_assignment_interval_ms: int = setting(
        0, "The shortest assignment interval a consumer group may set.", 0
    )
    group_consumer_max_assignment_interval_ms: int = setting(
        15_000, "The longest assignment interval a consumer group may set.", 0
    )
    group_consumer_max_size: int = setting(
        MAX_INT32, "The largest number of members of a consumer group.", 1
    )
    group_consumer_migration_policy: str = setting(
        MigrationPolicy.BIDIRECTIONAL.value,
        "Whether groups with members may be upgraded to the consumer protocol, downgraded from it, or both.",
        choices=tuple(each.value for each in MigrationPolicy),
    )
    group_consumer_regex_refresh_interval_ms: int = setting(
        600_000,
        "How often regular expressions of subscriptions are matched against the topics again.",
        10_000,
    )
    # not a setting of Kafka
    group_consumer_release: str = setting(
        "4.3",
        "The release of Kafka whose behavior is followed where releases differ: 4.3 or 4.4.",
        choices=("4.3", "4.4"),
    )
    offset_metadata_max_bytes: int = setting(
        4_096,
        "The largest metadata of a committed offset; in UTF-16 code units, as Kafka counts them.",
        0,
    )
    offsets_retention_minutes: int = setting(
        10_080,
        "How long committed offsets are kept after their group's last member left, or after their commit.",
        1,
    )
    offsets_retention_check_interval_ms: int = setting(
        600_000, "How often the broker looks for committed offsets that expired.", 1, kind=LONG
    )
    new_member_join_timeout_ms: int = setting(
        300_000,
        "How long the JoinGroup of a new member may be parked; a constant in Kafka.",
        1,
        internal=True,
    )
    session_bucket_ms: int = setting(
        10,
        "Sessions that end within the same interval of this length are ended together, at its end.",
        1,
        internal=True,
    )
    max_record_bytes: int = setting(
        MAX_INT32, "The largest record of a group: the log's max.message.bytes.", 0, internal=True
    )
    gather_ms: int = setting(
        0,
        "Without an initial delay: how long the first rebalance waits for member ids that were assigned but have"
        " not joined.",
        0,
        internal=True,
    )

    @override
    def _check(self) -> None:
        super()._check()
        for name in ("session_timeout_ms", "heartbeat_interval_ms", "assignment_interval_ms"):
            low, high = self.bounds_of(f"consumer.{dotted(name)}")
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

    def bounds_of(self, key: str) -> tuple[int, int]:
        """Return the lowest and highest value of a group's setting, by its dotted key (`consumer.session.timeout.ms`)."""
        name = key.removeprefix("consumer.").replace(".", "_")
        low: int = getattr(self, f"group_consumer_min_{name}")
        high: int = getattr(self, f"group_consumer_max_{name}")
        return low, high

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000

    @property
    def follows_4_4(self) -> bool:
        """Whether to follow Kafka 4.4 where it differs from 4.3."""
        return self.group_consumer_release == "4.4"

    @property
    def policy(self) -> MigrationPolicy:
        """The directions in which groups may migrate."""
        return MigrationPolicy(self.group_consumer_migration_policy)


class TransactionConfig(Settings):
    """Transactions."""

    transaction_max_timeout_ms: int = setting(
        900_000, "The longest timeout a transaction may ask for.", 1
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(
        10_000, "How often the broker looks for transactions that exceeded their timeout.", 1
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        3_600_000, "How often the broker looks for transactional ids that expired.", 1
    )
    transactional_id_expiration_ms: int = setting(
        7 * _DAY_MS, "How long an unused transactional id is kept.", 1
    )
    # offsets committed in a transaction go to the partition of their group
    offsets_topic_num_partitions: int = setting(
        50, "The number of partitions of __consumer_offsets.", 1
    )
    transaction_version: int = setting(
        2,
        "The feature of this name: from 1 on records have flexible values, from 2 on every end of a transaction"
        " raises the epoch (KIP-890).",
        0,
        2,
        internal=True,
    )
    marker_retry_backoff_ms: int = setting(
        50,
        "The wait before the first retry of failed markers, doubling with each retry.",
        1,
        internal=True,
    )
    marker_retry_backoff_max_ms: int = setting(
        1_000, "The longest wait before markers are retried.", 1, internal=True
    )

    @override
    def _check(self) -> None:
        super()._check()
        if self.marker_retry_backoff_max_ms < self.marker_retry_backoff_ms:
            raise ConfigError(
                f"marker.retry.backoff.max.ms ({self.marker_retry_backoff_max_ms}) must not be less"
                f" than marker.retry.backoff.ms ({self.marker_retry_backoff_ms})"
            )


class BrokerConfig(TransactionConfig, GroupConfig, TopicConfig, ListenerConfig):
    """The settings of a broker. All nodes of a cluster share them, except for their ports."""

    offsets_commit_timeout_ms: int = setting(
        5_000, "How long a commit may wait to be written before it fails.", 1
    )
    offsets_load_buffer_size: int = setting(
        5 * _MIB, "The batch size for reading __consumer_offsets when it is loaded, in bytes.", 1
    )
    offsets_topic_compression_codec: int = setting(
        0,
        "The compression of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        0,
        4,
    )
    offsets_topic_replication_factor: int = setting(
        1, "The number of replicas of __consumer_offsets.", 1, _MAX_REPLICAS, kind=SHORT
    )
    offsets_topic_segment_bytes: int = setting(
        100 * _MIB, "The size of the segments of __consumer_offsets, in bytes."
    )
    transaction_state_log_num_partitions: int = setting(
        50, "The number of partitions of __transaction_state.", 1
    )
    transaction_state_log_replication_factor: int = setting(
        1, "The number of replicas of __transaction_state.", 1, _MAX_REPLICAS, kind=SHORT
    )
    transaction_state_log_segment_bytes: int = setting(
        100 * _MIB, "The size of the segments of __transaction_state, in bytes."
    )
    transaction_partition_verification_enable: bool = setting(
        True,
        "Whether a transactional batch is checked against the coordinator before it is written.",
        dynamic=True,
    )
    producer_id_expiration_ms: int = setting(
        _DAY_MS, "How long the state of an idle producer is kept.", 1, dynamic=True
    )
    producer_id_expiration_check_interval_ms: int = setting(
        600_000, "How often the broker looks for producers whose state has expired.", 1, MAX_INT64
    )

    def check_replication(self, nodes: int) -> None:
        """Raise ConfigError if a topic is to have more replicas than there are nodes."""
        for name in self.ROWS:
            if name.endswith("_replication_factor") and getattr(self, name) > nodes:
                raise ConfigError(
                    f"{dotted(name)} must be from 1 to {nodes}, the number of nodes, not {getattr(self, name)}"
                )


SETTINGS: Final = {dotted(name): row for name, row in BrokerConfig.ROWS.items() if not row.internal}
"""The broker's settings by dotted key, as users know them."""
TOPIC_DEFAULTS: Final = {row.topic: key for key, row in SETTINGS.items() if row.topic}
"""The broker's setting that is the default of each topic setting."""
GROUP_SETTINGS: Final = {row.group: key for key, row in SETTINGS.items() if row.group}
"""The broker's setting that each setting of a group overrides."""
