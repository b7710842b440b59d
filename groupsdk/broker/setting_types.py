"""The metadata of settings for DescribeConfigs: type, whether dynamic, documentation."""

from typing import Final

from groupsdk.broker.config import KINDS
from groupsdk.broker.log.config import LogConfig
from groupsdk.broker.log_manager import TOPIC_DEFAULTS


BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(1, 10)
"""Kafka's `ConfigDef.Type`, as DescribeConfigs numbers them; 0 is an unknown setting."""

_BY_KIND: Final = {bool: BOOLEAN, str: STRING, int: INT, float: DOUBLE}
_BROKER_TYPES: Final = {
    **dict.fromkeys(
        (
            "advertised.listeners",
            "group.consumer.assignors",
            "listeners",
            "log.cleanup.policy",
            "sasl.enabled.mechanisms",
        ),
        LIST,
    ),
    **dict.fromkeys(
        ("offsets.topic.replication.factor", "transaction.state.log.replication.factor"), SHORT
    ),
    **dict.fromkeys(
        (
            "connections.max.idle.ms",
            "connections.max.reauth.ms",
            "log.cleaner.backoff.ms",
            "log.cleaner.delete.retention.ms",
            "log.cleaner.max.compaction.lag.ms",
            "log.cleaner.min.compaction.lag.ms",
            "log.flush.interval.messages",
            "log.flush.interval.ms",
            "log.flush.scheduler.interval.ms",
            "log.message.timestamp.after.max.ms",
            "log.message.timestamp.before.max.ms",
            "log.retention.bytes",
            "log.retention.check.interval.ms",
            "log.retention.ms",
            "log.roll.jitter.ms",
            "log.roll.ms",
            "log.segment.delete.delay.ms",
            "offsets.retention.check.interval.ms",
            "queued.max.request.bytes",
        ),
        LONG,
    ),
    "ssl.key.password": PASSWORD,
}
GROUP_TEXTS: Final = {
    "consumer.session.timeout.ms": "How long after its last heartbeat a member of this consumer group is removed.",
    "consumer.heartbeat.interval.ms": "How often members of this consumer group send heartbeats.",
    "consumer.assignment.interval.ms": "The shortest time between two assignments of this group.",
}
"""The settings that a group may have, with their documentation. Kafka has more, for share and streams groups."""
_TOPIC_TYPES: Final = {
    **dict.fromkeys(
        (
            "cleanup.policy",
            "follower.replication.throttled.replicas",
            "leader.replication.throttled.replicas",
        ),
        LIST,
    ),
    **dict.fromkeys(
        (
            "compression.gzip.level",
            "compression.lz4.level",
            "compression.zstd.level",
            "index.interval.bytes",
            "max.message.bytes",
            "min.insync.replicas",
            "segment.bytes",
            "segment.index.bytes",
        ),
        INT,
    ),
    **dict.fromkeys(("local.retention.bytes", "local.retention.ms"), LONG),
    **dict.fromkeys(
        ("remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable"),
        BOOLEAN,
    ),
}

NULL_BY_DEFAULT: Final = frozenset(
    {
        "advertised.listeners",
        "broker.rack",
        "log.flush.interval.ms",
        "log.retention.ms",
        "log.roll.jitter.ms",
        "log.roll.ms",
        "ssl.key.location",
        "ssl.keystore.location",
        "ssl.truststore.location",
    }
)
"""The broker settings that Kafka shows as null while they have their default. For times, that is because Kafka
has a coarser setting behind each (`log.retention.hours`), with the same value.
"""

DYNAMIC: Final = frozenset(TOPIC_DEFAULTS.values()) | {
    "group.consumer.assignment.interval.ms",
    "log.cleaner.backoff.ms",
    "max.connections",
    "max.connections.per.ip",
    "producer.id.expiration.ms",
    "transaction.partition.verification.enable",
}
"""The broker settings that take effect while it runs. Fewer than Kafka's (`DynamicBrokerConfig`): listeners
and TLS are read at the start.
"""


def broker_type(key: str) -> int:
    """Return the type of a broker's setting, by its dotted key."""
    found = _BROKER_TYPES.get(key)
    return _BY_KIND[KINDS[key.replace(".", "_")]] if found is None else found


def topic_type(key: str) -> int:
    """Return the type of a topic's setting, by its dotted key."""
    found = _TOPIC_TYPES.get(key)
    if found is not None:
        return found
    kind = type(getattr(LogConfig(), key.replace(".", "_")))
    return LONG if kind is int else _BY_KIND.get(kind, STRING)


_BROKER_TEXTS: Final = {
    "listeners": "The addresses to listen on, NAME://host:port each, separated by commas.",
    "advertised.listeners": "The addresses that clients are given to connect to, if they differ from listeners.",
    "listener.security.protocol.map": "The security protocol of each listener name.",
    "broker.rack": "The rack of the broker; clients prefer to read from brokers in their own rack.",
    "socket.request.max.bytes": "The largest request, in bytes.",
    "socket.listen.backlog.size": "How many connections may wait to be accepted.",
    "queued.max.request.bytes": "The memory for requests that are being received, in bytes.",
    "max.connections": "The largest number of connections.",
    "max.connections.per.ip": "The largest number of connections from one address.",
    "connections.max.idle.ms": "The time after which a connection without traffic is closed.",
    "sasl.enabled.mechanisms": "The SASL mechanisms that clients may use.",
    "sasl.oauthbearer.unsecured": "Whether unsigned OAUTHBEARER tokens are accepted. For tests.",
    "connections.max.reauth.ms": "The longest time until a SASL client must re-authenticate; 0: never.",
    "ssl.keystore.location": "The file with the certificate chain of the broker, and its private key.",
    "ssl.key.location": "The file with the private key, if it is not in the keystore.",
    "ssl.key.password": "The password of the private key.",
    "ssl.keystore.type": "The format of the keystore.",
    "ssl.truststore.type": "The format of the truststore.",
    "ssl.truststore.location": "The file with the authorities whose client certificates are accepted.",
    "ssl.client.auth": "Whether clients may or must present a certificate.",
    "authorizer.class.name": "Enables authorization by ACLs; any value enables the built-in authorizer.",
    "super.users": "The principals that may do everything, User:name each, separated by semicolons.",
    "allow.everyone.if.no.acl.found": "Whether everyone may use a resource that no ACL names.",
    "auto.create.topics.enable": "Whether a metadata request for a missing topic creates it.",
    "num.partitions": "The number of partitions of topics created without one.",
    "default.replication.factor": "The number of replicas of topics created without one.",
    "delete.topic.enable": "Whether topics can be deleted.",
    "message.max.bytes": "The largest batch of records, in bytes, after compression.",
    "fetch.max.bytes": "The largest response to a fetch request, in bytes.",
    "max.incremental.fetch.session.cache.slots": "The largest number of incremental fetch sessions.",
    "compression.type": "The compression of a topic's batches; 'producer' keeps that of the producer.",
    "min.insync.replicas": "How many replicas must have a batch before acks=all is answered.",
    # the tests of @platformatic/kafka compare this sentence with Kafka's
    "log.cleanup.policy": "This config designates the retention policy to use on log segments."
    " What happens to old segments: 'delete', 'compact' or both.",
    "log.cleaner.enable": "Whether logs are compacted.",
    "log.cleaner.backoff.ms": "How often the broker looks for logs to compact.",
    "log.cleaner.delete.retention.ms": "How long the tombstones of a compacted topic are kept.",
    "log.cleaner.min.cleanable.ratio": "The share of a log that must be dirty before it is compacted.",
    "log.cleaner.min.compaction.lag.ms": "The shortest time before a record may be compacted.",
    "log.cleaner.max.compaction.lag.ms": "The longest time before a record is compacted.",
    "log.flush.interval.messages": "The number of records after which a partition is flushed to disk.",
    "log.flush.interval.ms": "The longest time before a record is flushed to disk.",
    "log.flush.scheduler.interval.ms": "How often the broker looks for partitions to flush.",
    "log.flush.offset.checkpoint.interval.ms": "How often the recovery point of each log is written.",
    "log.index.interval.bytes": "The number of bytes between two entries of an offset index.",
    "log.index.size.max.bytes": "The largest size of an offset index, in bytes.",
    "log.message.timestamp.type": "Whether records have the producer's timestamp or that of the broker.",
    "log.message.timestamp.before.max.ms": "How far a record's timestamp may be behind the broker's clock.",
    "log.message.timestamp.after.max.ms": "How far a record's timestamp may be ahead of the broker's clock.",
    "log.preallocate": "Whether the file of a new segment is preallocated.",
    "log.retention.bytes": "The size of a partition above which old segments are deleted; -1: no limit.",
    "log.retention.ms": "The age at which segments are deleted; -1: no limit.",
    "log.retention.check.interval.ms": "How often the broker looks for segments to delete.",
    "log.roll.ms": "The age at which a segment is closed and a new one begins.",
    "log.roll.jitter.ms": "The largest random time that is subtracted from segment.ms.",
    "log.segment.bytes": "The largest size of a segment, in bytes.",
    "log.segment.delete.delay.ms": "The delay between deleting a segment and removing its files.",
    "group.min.session.timeout.ms": "The shortest session timeout a member of a classic group may ask for.",
    "group.max.session.timeout.ms": "The longest session timeout a member of a classic group may ask for.",
    "group.initial.rebalance.delay.ms": "How long the first rebalance of an empty group waits for more members.",
    "group.max.size": "The largest number of members of a classic group.",
    "group.consumer.assignors": "The assignors of consumer groups; the first one is the default.",
    "group.consumer.assignor.timeout.ms": "The longest time an assignor may take.",
    "group.consumer.session.timeout.ms": "How long after its last heartbeat a member of a consumer group is removed.",
    "group.consumer.min.session.timeout.ms": "The shortest session timeout a consumer group may set.",
    "group.consumer.max.session.timeout.ms": "The longest session timeout a consumer group may set.",
    "group.consumer.heartbeat.interval.ms": "How often members of a consumer group send heartbeats.",
    "group.consumer.min.heartbeat.interval.ms": "The shortest heartbeat interval a consumer group may set.",
    "group.consumer.max.heartbeat.interval.ms": "The longest heartbeat interval a consumer group may set.",
    "group.consumer.assignment.interval.ms": "The shortest time between two assignments of a group.",
    "group.consumer.min.assignment.interval.ms": "The shortest assignment interval a consumer group may set.",
    "group.consumer.max.assignment.interval.ms": "The longest assignment interval a consumer group may set.",
    "group.consumer.max.size": "The largest number of members of a consumer group.",
    "group.consumer.migration.policy": "Whether groups with members may be upgraded to the consumer protocol, downgraded from it, or both.",
    "group.consumer.regex.refresh.interval.ms": "How often regular expressions of subscriptions are matched against the topics again.",
    "group.consumer.release": "The release of Kafka whose behavior is followed where releases differ: 4.3 or 4.4.",
    "offset.metadata.max.bytes": "The largest metadata of a committed offset, in bytes.",
    "offsets.retention.minutes": "How long committed offsets are kept once their group is empty.",
    "offsets.retention.check.interval.ms": "How often the broker looks for committed offsets that expired.",
    "offsets.commit.timeout.ms": "How long a commit may wait to be written before it fails.",
    "offsets.load.buffer.size": "The batch size for reading __consumer_offsets when it is loaded, in bytes.",
    "offsets.topic.compression.codec": "The compression of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
    "offsets.topic.num.partitions": "The number of partitions of __consumer_offsets.",
    "offsets.topic.replication.factor": "The number of replicas of __consumer_offsets.",
    "offsets.topic.segment.bytes": "The size of the segments of __consumer_offsets, in bytes.",
    "transaction.max.timeout.ms": "The longest timeout a transaction may ask for.",
    "transaction.state.log.num.partitions": "The number of partitions of __transaction_state.",
    "transaction.state.log.replication.factor": "The number of replicas of __transaction_state.",
    "transaction.state.log.segment.bytes": "The size of the segments of __transaction_state, in bytes.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (
        "How often the broker looks for transactions that exceeded their timeout."
    ),
    "transaction.remove.expired.transaction.cleanup.interval.ms": (
        "How often the broker looks for transactional ids that expired."
    ),
    "transaction.partition.verification.enable": (
        "Whether a transactional batch is checked against the coordinator before it is written."
    ),
    "transactional.id.expiration.ms": "How long an unused transactional id is kept.",
    "producer.id.expiration.ms": "How long the state of an idle producer is kept.",
    "producer.id.expiration.check.interval.ms": "How often the broker looks for producers whose state has expired.",
}
_TOPIC_TEXTS: Final = {
    "unclean.leader.election.enable": "Whether a replica that is not in sync may become the leader.",
    "compression.gzip.level": "The compression level for gzip.",
    "compression.lz4.level": "The compression level for lz4.",
    "compression.zstd.level": "The compression level for zstd.",
    "follower.replication.throttled.replicas": "The replicas whose replication is throttled on followers.",
    "leader.replication.throttled.replicas": "The replicas whose replication is throttled on the leader.",
    "local.retention.bytes": "With tiered storage: the size of a partition's log on the local disk.",
    "local.retention.ms": "With tiered storage: how long segments are kept on the local disk.",
    "remote.log.copy.disable": "Whether tiered storage stops copying segments.",
    "remote.log.delete.on.disable": "Whether remote segments are deleted when tiered storage is disabled.",
    "remote.storage.enable": "Whether tiered storage is enabled.",
}


def broker_documentation(key: str) -> str:
    """Return the documentation of a broker's setting, by its dotted key."""
    return _BROKER_TEXTS[key]


def topic_documentation(key: str) -> str:
    """Return the documentation of a topic's setting, by its dotted key."""
    found = _TOPIC_TEXTS.get(key)
    return _BROKER_TEXTS[TOPIC_DEFAULTS[key]] if found is None else found
