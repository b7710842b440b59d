"""Declare the tables of the history: columns, keys and partitioning."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa


TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
ARROW_TYPES: Final[Mapping[str, Any]] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "smallint": pa.int16(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "array<string>": pa.list_(pa.string()),
    "array<bigint>": pa.list_(pa.int64()),
    "array<timestamp>": pa.list_(TIMESTAMP),
    "map<string,int>": pa.map_(pa.string(), pa.int32()),
    "map<int,bigint>": pa.map_(pa.int32(), pa.int64()),
}


CLUSTER: Final = "cluster_id"
"""The first column of each table of a run: the cluster that the log is of."""
UNKNOWN_CLUSTER: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Table:
    """One table; times are timestamps in UTC with their milliseconds."""

    name: str
    about: str
    """The meaning of a row."""
    columns: Mapping[str, str]
    """Name to Spark's type."""
    keys: tuple[str, ...]
    """Columns whose values are unique together."""
    partition_by: tuple[str, ...] = ()
    """The columns by which the files are partitioned."""
    day_of: str = ""
    """The time whose day partitions a table of a lakehouse, besides the cluster; "": it is partitioned by cluster only."""

    @property
    def ddl(self) -> str:
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns.items())

    @property
    def stored_schema(self) -> Any:
        """The Arrow schema of the table's files and of all its columns."""
        return pa.schema([(name, ARROW_TYPES[kind]) for name, kind in self.columns.items()])

    @property
    def arrow_schema(self) -> Any:
        """The Arrow schema of the rows as they are made: without the cluster, which is added as they are written."""
        return pa.schema([each for each in self.stored_schema if each.name != CLUSTER])


_SOURCE: Final = {"src_partition": "int", "src_offset": "bigint"}

_EVERY: Final = (
    Table(
        "raw_records",
        "a raw record of the log",
        {
            **_SOURCE,
            "ts": "timestamp",
            "leader_epoch": "int",
            "producer_id": "bigint",
            "producer_epoch": "smallint",
            "transactional": "boolean",
            "control": "boolean",
            "key": "binary",
            "value": "binary",
            "day": "date",
        },
        ("src_partition", "src_offset"),
        ("day",),
    ),
    Table(
        "offset_commits",
        "a committed offset; null if it was removed",
        {
            "group_id": "string",
            "topic": "string",
            "partition": "int",
            "committed_offset": "bigint",
            "offset_leader_epoch": "int",
            "metadata": "string",
            "commit_ts": "timestamp",
            "expire_ts": "timestamp",
            "topic_id": "string",
            "state": "string",
            "value_version": "smallint",
            "ts": "timestamp",
            "leader_epoch": "int",
            **_SOURCE,
            "day": "date",
        },
        ("src_partition", "src_offset"),
        ("day",),
    ),
    Table(
        "generations",
        "a generation of a classic group, or an epoch of a group of a newer protocol",
        {
            "group_id": "string",
            "protocol": "string",
            "protocol_type": "string",
            "incarnation": "int",
            "seq": "bigint",
            "generation": "int",
            "ts": "timestamp",
            "state_ts": "timestamp",
            "converged_ts": "timestamp",
            "assignor": "string",
            "leader": "string",
            "n_members": "int",
            "n_partitions": "int",
            "primary_cause": "string",
            "causes": "array<string>",
            "evidence": "string",
            "confidence": "double",
            "reason": "string",
            "joined": "int",
            "gone": "int",
            "changed": "int",
            "missing_before": "int",
            "coordinator_changed": "boolean",
            "moved": "bigint",
            "balance_stddev": "double",
            "since_previous_ms": "bigint",
            "commit_gap_ms": "bigint",
            "commit_gap_max_ms": "bigint",
            "is_empty": "boolean",
            "stalled_ms": "bigint",
            **_SOURCE,
        },
        ("group_id", "seq"),
    ),
    Table(
        "memberships",
        "a stay of a member in a group",
        {
            "group_id": "string",
            "protocol": "string",
            "member_id": "string",
            "instance_id": "string",
            "client_id": "string",
            "client_host": "string",
            "first_seq": "bigint",
            "last_seq": "bigint",
            "first_generation": "int",
            "last_generation": "int",
            "start_ts": "timestamp",
            "end_ts": "timestamp",
            "stay_ms": "bigint",
            "end_reason": "string",
            "session_timeout_ms": "int",
            "rebalance_timeout_ms": "int",
            "topics": "array<string>",
            "assignor_offered": "string",
            **_SOURCE,
        },
        ("group_id", "member_id", "first_seq"),
    ),
    Table(
        "departures",
        "a member that is gone and has no successor, with the reason",
        {
            "group_id": "string",
            "seq": "bigint",
            "generation": "int",
            "ts": "timestamp",
            "member_id": "string",
            "client_id": "string",
            "reason": "string",
            "confidence": "double",
            "silence_ms": "bigint",
        },
        ("group_id", "seq", "member_id"),
    ),
    Table(
        "assignments",
        "a partition that a member has in a generation",
        {
            "group_id": "string",
            "protocol": "string",
            "seq": "bigint",
            "generation": "int",
            "ts": "timestamp",
            "phase": "string",
            "member_id": "string",
            "client_id": "string",
            "topic": "string",
            "topic_id": "string",
            "partition": "int",
            **_SOURCE,
        },
        ("group_id", "seq", "phase", "member_id", "topic", "topic_id", "partition"),
    ),
    Table(
        "moves",
        "a partition that went from one member to another",
        {
            "group_id": "string",
            "seq": "bigint",
            "generation": "int",
            "ts": "timestamp",
            "topic": "string",
            "partition": "int",
            "from_member": "string",
            "to_member": "string",
            "from_client": "string",
            "to_client": "string",
            "idle_generations": "int",
            "gap_ms": "bigint",
            "same_client": "boolean",
            **_SOURCE,
        },
        ("group_id", "seq", "topic", "partition", "to_member"),
    ),
    Table(
        "payloads",
        "the metadata and assignment of a member in a generation of a group that is not of consumers",
        {
            "group_id": "string",
            "seq": "bigint",
            "generation": "int",
            "ts": "timestamp",
            "protocol_type": "string",
            "member_id": "string",
            "client_id": "string",
            "url": "string",
            "config_offset": "bigint",
            "delay_ms": "int",
            "metadata_bytes": "int",
            "metadata_digest": "string",
            "assignment_bytes": "int",
            "assignment_digest": "string",
            "weight": "double",
            "standbys": "array<string>",
            **_SOURCE,
        },
        ("group_id", "seq", "member_id"),
    ),
    Table(
        "commit_spans",
        "the commits of a partition while a generation lasted",
        {
            "group_id": "string",
            "seq": "bigint",
            "topic": "string",
            "partition": "int",
            "first_commit_ts": "timestamp",
            "last_commit_ts": "timestamp",
            "last_offset": "bigint",
            "commits": "bigint",
            **_SOURCE,
        },
        ("group_id", "seq", "topic", "partition"),
    ),
    Table(
        "lag",
        "how far a group is behind on a partition",
        {
            "group_id": "string",
            "topic": "string",
            "partition": "int",
            "ts": "timestamp",
            "committed_offset": "bigint",
            "end_offset": "bigint",
            "lag": "bigint",
            "time_lag_ms": "bigint",
            "kind": "string",
        },
        ("group_id", "topic", "partition", "ts", "kind"),
    ),
    Table(
        "slo",
        "how a group meets its service level objective at the end of the log",
        {
            "group_id": "string",
            "percent": "double",
            "within_ms": "bigint",
            "period_ms": "bigint",
            "partitions": "int",
            "late": "int",
            "total_ms": "bigint",
            "bad_ms": "bigint",
            "good_percent": "double",
            "budget_left": "double",
            "burn_5m": "double",
            "burn_30m": "double",
            "burn_1h": "double",
            "burn_6h": "double",
            "burn_3d": "double",
            "alert": "string",
        },
        ("group_id",),
    ),
    Table(
        "storms",
        "many generations of a group in a short time",
        {
            "group_id": "string",
            "start_ts": "timestamp",
            "end_ts": "timestamp",
            "first_seq": "bigint",
            "last_seq": "bigint",
            "generations": "int",
            "moves": "bigint",
            "causes": "map<string,int>",
            "culprit_client": "string",
            "culprit_changes": "bigint",
            "culprit_clients": "int",
            "culprit_host": "string",
            "downtime_ms": "bigint",
            "stalled_ms": "bigint",
        },
        ("group_id", "start_ts"),
    ),
    Table(
        "standstills",
        "a time in which a partition of a group made no progress, although it usually does",
        {
            "group_id": "string",
            "seq": "bigint",
            "topic": "string",
            "partition": "int",
            "start_ts": "timestamp",
            "end_ts": "timestamp",
            "usual_ms": "bigint",
            "stalled_ms": "bigint",
            "primary_cause": "string",
            "confidence": "double",
        },
        ("group_id", "topic", "partition", "start_ts"),
    ),
    Table(
        "progress",
        "a partition that a group has committed, at the end of the log",
        {
            "group_id": "string",
            "topic": "string",
            "partition": "int",
            "first_ts": "timestamp",
            "last_ts": "timestamp",
            "commits": "bigint",
            "committed_offset": "bigint",
            "usual_ms": "bigint",
            "stalled_ms": "bigint",
        },
        ("group_id", "topic", "partition"),
    ),
    Table(
        "groups",
        "a group at the end of the log",
        {
            "group_id": "string",
            "protocol": "string",
            "protocol_type": "string",
            "seq": "bigint",
            "generation": "int",
            "ts": "timestamp",
            "n_members": "int",
            "n_partitions": "int",
            "primary_cause": "string",
            "committed": "int",
            "rebalances": "bigint",
            "moved": "bigint",
            "stalled_ms": "bigint",
            "recent_ts": "array<timestamp>",
            "storm_end_ts": "timestamp",
            "storm_generations": "int",
            "storm_client": "string",
            "storm_stalled_ms": "bigint",
        },
        ("group_id",),
    ),
    Table(
        "advice",
        "what a change would have spared and cost in a group",
        {
            "group_id": "string",
            "advice": "string",
            "setting": "string",
            "pays": "boolean",
            "rebalances": "bigint",
            "moves": "bigint",
            "revoked": "bigint",
            "spared_ms": "bigint",
            "added_ms": "bigint",
            "late_spared": "bigint",
            "late_added": "bigint",
            "back": "bigint",
            "gone": "bigint",
            "of_rebalances": "bigint",
            "evidence": "array<bigint>",
        },
        ("group_id", "advice"),
    ),
    Table(
        "replay",
        "the result of an assignor for a generation; `actual` is the real one",
        {
            "group_id": "string",
            "seq": "bigint",
            "generation": "int",
            "assignor": "string",
            "moved": "int",
            "revoked": "int",
            "max_load": "int",
            "min_load": "int",
            "stddev": "double",
            "n_members": "int",
            "n_partitions": "int",
            "problem": "string",
            "ts": "timestamp",
        },
        ("group_id", "seq", "assignor"),
    ),
    Table(
        "replay_summary",
        "the results of an assignor over a group's whole history; rank 1 is the best",
        {
            "group_id": "string",
            "assignor": "string",
            "generations": "bigint",
            "moves": "bigint",
            "revoked": "bigint",
            "mean_stddev": "double",
            "worst_spread": "int",
            "problems": "bigint",
            "rank": "int",
        },
        ("group_id", "assignor"),
    ),
    Table(
        "quality",
        "how much of a partition of the log was there to be read",
        {
            "src_partition": "int",
            "first_offset": "bigint",
            "last_offset": "bigint",
            "records": "bigint",
            "offset_gaps": "bigint",
            "bad_batches": "bigint",
            "undecodable": "bigint",
            "unknown_types": "map<int,bigint>",
            "missing_generations": "bigint",
            "first_ts": "timestamp",
            "last_ts": "timestamp",
        },
        ("src_partition",),
    ),
    Table(
        "rejects",
        "something that could not be read or decoded",
        {
            **_SOURCE,
            "group_id": "string",
            "record_type": "smallint",
            "reason": "string",
            "place": "string",
            "lost": "bigint",
            "key": "binary",
            "value": "binary",
        },
        (),
    ),
    Table(
        "topics",
        "the name of a topic that records name by its id",
        {"topic_id": "string", "topic": "string"},
        ("topic_id",),
    ),
)

RAW: Final = "raw_records"
"""The table of an archive, which is of one cluster."""


_DAY_OF: Final = {
    **dict.fromkeys(("offset_commits", "generations", "departures", "assignments"), "ts"),
    **dict.fromkeys(("moves", "payloads", "lag", "replay"), "ts"),
    **dict.fromkeys(("memberships", "standstills", "storms"), "start_ts"),
    "commit_spans": "first_commit_ts",
}


def _of_clusters(table: Table) -> Table:
    columns = {CLUSTER: "string", **table.columns}
    keys = (CLUSTER, *table.keys) if table.keys else ()
    return replace(table, columns=columns, keys=keys, day_of=_DAY_OF.get(table.name, ""))


TABLES: Final[Mapping[str, Table]] = {
    table.name: table if table.name == RAW else _of_clusters(table) for table in _EVERY
}
"""The tables by name."""
