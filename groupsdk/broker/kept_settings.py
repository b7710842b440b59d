"""Settings that are kept, checked and described as in Kafka, but have no effect on this broker."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from groupsdk.broker.kafka_settings import KAFKA_SETTINGS
from groupsdk.broker.setting_types import BOOLEAN, DOUBLE, INT, LIST, LONG, STRING
from groupsdk.limits import MAX_INT32


_MAX_INT64: Final = 2**63 - 1
_BOUNDS: Final = {INT: (-(2**31), MAX_INT32), LONG: (-(2**63), _MAX_INT64)}
_TYPE_NAMES: Final = {INT: "INT", LONG: "LONG", DOUBLE: "DOUBLE"}


class KeptSetting(NamedTuple):
    """The type of a setting and the values that it may have (Kafka: `ConfigDef`)."""

    config_type: int
    documentation: str
    default: str = ""
    low: int | None = None
    """The lowest value of a number."""
    limits: tuple[int, int] | None = None
    """What the broker's settings of the lowest and highest value have by default."""
    choices: tuple[str, ...] = ()
    """The values of a string."""


_DESCRIBED: Final = {
    "background.threads": KeptSetting(INT, "The number of threads for background work.", low=1),
    "compression.gzip.level": KeptSetting(INT, "The compression level for gzip."),
    "compression.lz4.level": KeptSetting(INT, "The compression level for lz4."),
    "compression.zstd.level": KeptSetting(INT, "The compression level for zstd."),
    "follower.replication.throttled.rate": KeptSetting(
        LONG, "The bytes per second of throttled replication on followers.", low=0
    ),
    "leader.replication.throttled.rate": KeptSetting(
        LONG, "The bytes per second of throttled replication on leaders.", low=0
    ),
    "log.cleaner.dedupe.buffer.size": KeptSetting(
        LONG, "The memory for deduplication during compaction, in bytes."
    ),
    "log.cleaner.io.buffer.load.factor": KeptSetting(
        DOUBLE, "The fraction of log.cleaner.dedupe.buffer.size that may be used."
    ),
    "log.cleaner.io.buffer.size": KeptSetting(
        INT, "The memory for the I/O of compaction, in bytes.", low=0
    ),
    "log.cleaner.io.max.bytes.per.second": KeptSetting(
        DOUBLE, "The highest rate of compaction's reads and writes, in bytes per second."
    ),
    "log.cleaner.threads": KeptSetting(INT, "The number of threads for compaction.", low=0),
    "max.connection.creation.rate": KeptSetting(INT, "New connections in a second.", low=0),
    "num.io.threads": KeptSetting(INT, "The number of threads that answer requests.", low=1),
    "num.network.threads": KeptSetting(INT, "The number of threads for the network.", low=1),
    "num.recovery.threads.per.data.dir": KeptSetting(
        INT, "The number of threads for recovery and flushing, for each data directory.", low=1
    ),
    "num.replica.fetchers": KeptSetting(INT, "The number of threads for replication."),
    "replica.alter.log.dirs.io.max.bytes.per.second": KeptSetting(
        LONG, "The bytes per second of moves between directories.", low=0
    ),
    "unclean.leader.election.enable": KeptSetting(
        BOOLEAN, "Whether a replica that is not in sync may become the leader."
    ),
}
NO_EFFECT: Final = "A setting of Apache Kafka that has no effect on this broker."
BROKER_SETTINGS: Final = {
    **{
        name: KeptSetting(setting.config_type, NO_EFFECT)
        for name, setting in KAFKA_SETTINGS.items()
        if setting.changeable
    },
    **_DESCRIBED,
}
"""Settings of brokers that Kafka can change while it runs."""

_SESSION: Final = (45_000, 60_000)
_INTERVAL: Final = (5_000, 15_000)
_ASSIGNMENT: Final = (0, 15_000)
GROUP_SETTINGS: Final = {
    "share.assignment.interval.ms": KeptSetting(
        INT, "The shortest time between two assignments of a group.", "1000", 0, _ASSIGNMENT
    ),
    "share.auto.offset.reset": KeptSetting(
        STRING, "The offset at which a new share group starts.", "latest"
    ),
    "share.delivery.count.limit": KeptSetting(
        INT, "The largest number of times a record is delivered.", "5", 2, (2, 10)
    ),
    "share.heartbeat.interval.ms": KeptSetting(
        INT, "How often members of a share group send heartbeats.", "5000", 1, _INTERVAL
    ),
    "share.isolation.level": KeptSetting(
        STRING,
        "Whether a share group reads records of open and aborted transactions.",
        "read_uncommitted",
        choices=("read_committed", "read_uncommitted"),
    ),
    "share.partition.max.record.locks": KeptSetting(
        INT, "The largest number of acquired records of a partition.", "2000", 100, (100, 4_000)
    ),
    "share.record.lock.duration.ms": KeptSetting(
        INT, "How long a record stays acquired.", "30000", 1_000, (15_000, 60_000)
    ),
    "share.renew.acknowledge.enable": KeptSetting(
        BOOLEAN, "Whether members may extend the acquisition of a record.", "true"
    ),
    "share.session.timeout.ms": KeptSetting(
        INT,
        "How long after its last heartbeat a member of a share group is removed.",
        "45000",
        1,
        _SESSION,
    ),
    "streams.assignment.interval.ms": KeptSetting(
        INT, "The shortest time between two assignments of a group.", "1000", 0, _ASSIGNMENT
    ),
    "streams.heartbeat.interval.ms": KeptSetting(
        INT, "How often members of a streams group send heartbeats.", "5000", 1, _INTERVAL
    ),
    "streams.initial.rebalance.delay.ms": KeptSetting(
        INT, "How long the first rebalance of an empty group waits.", "3000", 0
    ),
    "streams.num.standby.replicas": KeptSetting(
        INT, "The number of standby replicas of each task.", "0", 0, (0, 2)
    ),
    "streams.session.timeout.ms": KeptSetting(
        INT,
        "How long after its last heartbeat a member of a streams group is removed.",
        "45000",
        1,
        _SESSION,
    ),
}
"""What a group may set for share groups and streams groups, which are not served."""
OF_GROUPS_ONLY: Final = frozenset(
    {"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"}
)
"""The settings of groups without a setting of the broker (`group.` before the name) for their default."""

CLIENT_METRICS_SETTINGS: Final = {
    "interval.ms": KeptSetting(INT, "How often a client pushes its metrics.", "300000"),
    "match": KeptSetting(LIST, "The patterns that select the clients that push metrics."),
    "metrics": KeptSetting(LIST, "The prefixes of the metrics' names."),
}
"""A subscription to metrics of clients (KIP-714). Without a receiver Kafka only keeps it, too."""
_PUSH_INTERVALS: Final = range(100, 3_600_001)
_SELECTORS: Final = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
_DURATION: Final = re.compile(
    r"P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?", re.IGNORECASE
)


def value_problem(key: str, setting: KeptSetting, text: str) -> str | None:
    """Return why a value is not valid, in Kafka's words, or None if it is."""
    wrong = f"Invalid value {text} for configuration {key}:"
    if setting.config_type == BOOLEAN and text.strip().lower() not in {"true", "false"}:
        return f"{wrong} Expected value to be either true or false"
    if setting.choices and text.strip() not in setting.choices:
        return f"{wrong} String must be one of: {', '.join(setting.choices)}"
    if setting.config_type in _TYPE_NAMES:
        value = _number(setting.config_type, text)
        if value is None:
            return f"{wrong} Not a number of type {_TYPE_NAMES[setting.config_type]}"
        if setting.low is not None and value < setting.low:
            return f"{wrong} Value must be at least {setting.low}"
    return None


def _number(config_type: int, text: str) -> float | None:
    try:
        if config_type == DOUBLE:
            return float(text)
        value = int(text)
    except ValueError:
        return None
    low, high = _BOUNDS[config_type]
    return value if low <= value <= high else None


def group_problem(entries: Mapping[str, str]) -> str | None:
    """Return why settings of share and streams groups are not valid (Kafka: `GroupConfig.validate`)."""
    for key, text in entries.items():
        setting = GROUP_SETTINGS[key]
        problem = value_problem(key, setting, text)
        if problem is not None:
            return problem
        if key == "share.auto.offset.reset" and not _is_offset_reset(text):
            return (
                f"Invalid value {text} for configuration {key}: Invalid value `{text}` for configuration {key}."
                " The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
            )
        if setting.limits is None:
            continue
        kind, _, rest = key.partition(".")
        low, high = setting.limits
        if int(text) < low:
            return f"{key} must be greater than or equal to group.{kind}.min.{rest}"
        if int(text) > high:
            limit = "group.streams.max.standby.replicas"
            if key != "streams.num.standby.replicas":
                limit = f"group.{kind}.max.{rest}"
            return f"{key} must be less than or equal to {limit}"
    for kind in ("share", "streams"):
        session, interval = (
            int(entries.get(key, GROUP_SETTINGS[key].default))
            for key in (f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms")
        )
        if session <= interval:
            return f"{kind}.session.timeout.ms must be greater than {kind}.heartbeat.interval.ms"
    return None


def _is_offset_reset(text: str) -> bool:
    kind, _, duration = text.partition(":")
    if kind == "by_duration":
        return _DURATION.fullmatch(duration) is not None
    return text in {"earliest", "latest"}


def selector_problem(text: str) -> str | None:
    """Return why the `match` of a subscription to metrics is not valid, or None if it is."""
    for pattern in filter(None, (each.strip() for each in text.split(","))):
        name, _, expression = pattern.partition("=")
        try:
            valid = name.strip() in _SELECTORS and "=" not in expression and expression != ""
            re.compile(expression.strip())
        except re.error:
            valid = False
        if not valid:
            return f"Illegal client matching pattern: {pattern}"
    return None


def interval_problem(text: str) -> str | None:
    """Return why the `interval.ms` of a subscription to metrics is out of bounds, or None if it is not."""
    if int(text) in _PUSH_INTERVALS:
        return None
    return (
        f"Invalid value {text} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
    )
