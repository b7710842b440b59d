"""Find the partitions that stand still at the end of a cluster's log: who should read them, and since when nobody does."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from groupsdk.history.explain.commit_spans import allowance_ms
from groupsdk.history.tables.stage_tables import TableSource


STANDING_MS: Final = 30_000
"""A partition stands still if it was not committed for this long before the log's end, and for longer than it may be."""
_MS: Final = 1_000

PROGRESS_COLUMNS: Final = (
    *("group_id", "topic", "partition", "first_ts", "last_ts", "committed_offset", "usual_ms"),
)
GROUP_COLUMNS: Final = ("group_id", "seq", "n_members", "primary_cause")
"""The columns of the tables `progress` and `groups` that are needed here."""

BEHIND: Final = "behind"
"""There are records that the group has not read."""
SILENT: Final = "silent"
"""The log does not show whether there are records; the group used to commit, and stopped."""


class Standing(NamedTuple):
    """The partitions of one topic that stand still for one member of a group, or for nobody; times in milliseconds."""

    group_id: str
    topic: str
    partitions: tuple[int, ...]
    since_ms: int
    """The last commit of the partition that has stood for the longest."""
    evidence: str
    """`BEHIND` or `SILENT`."""
    lag: int | None
    """By how many records they are behind, in all."""
    client_id: str
    """"" if nobody has them."""
    client_host: str
    last_cause: str
    """The cause of the group's last rebalance."""


class Late(NamedTuple):
    """A partition that stands still; `lag` is by how many records it is behind, None if that is not known."""

    group_id: str
    topic: str
    partition: int
    since_ms: int
    usual_ms: float
    lag: int | None


def partition_seconds(stalled_ms: float) -> str:
    """Return partition-milliseconds as text."""
    return f"{stalled_ms / 1000:,.1f} partition-seconds"


def log_end_ms(tables: TableSource) -> int | None:
    """Return the time of the last record, in milliseconds; None if the log is empty."""
    return latest_ms(tables.read("quality", ("last_ts",)))


def latest_ms(coverage: Any) -> int | None:
    """Return the latest of the times in the column `last_ts`, in milliseconds; None if there is none."""
    newest = pc.max(coverage.column("last_ts").cast("int64")).as_py()
    return None if newest is None else newest // _MS


def standing(
    tables: TableSource, now_ms: int, *, least_ms: int = STANDING_MS
) -> Iterator[Standing]:
    """Yield what stands still at `now_ms`, group by group.

    A partition stands still if it was last committed more than `least_ms`, and more than twice its usual interval, before, unless the
    group is known to have read all of it, or its committed offset was removed. A group without members that has read everything, and one that committed a partition
    once, do not stand still.
    """
    groups = tables.read("groups", GROUP_COLUMNS)
    lag = _newest_lag(tables)
    late: defaultdict[str, dict[tuple[str, int], int]] = defaultdict(dict)
    for each in standing_still(
        tables.read("progress", PROGRESS_COLUMNS), groups, lag, now_ms, least_ms=least_ms
    ):
        late[each.group_id][each.topic, each.partition] = each.since_ms
    last = {
        row["group_id"]: (row["seq"], row["primary_cause"])
        for row in groups.to_pylist()
        if row["group_id"] in late
    }
    owners = _owners(tables, {group: seq for group, (seq, _) in last.items()})
    for group_id, places in sorted(late.items()):
        _, cause = last.get(group_id, (-1, None))
        yield from _rows(group_id, places, lag, owners.get(group_id, {}), cause or "")


def standing_still(
    progress: Any,
    groups: Any,
    lag: Mapping[tuple[str, str, int], int],
    now_ms: int,
    *,
    least_ms: int = STANDING_MS,
) -> Iterator[Late]:
    """Yield the partitions that stand still at `now_ms`, of the tables `progress` and `groups`; see `standing`.

    `lag` is by how many records a group is behind on a partition, where that is known.
    """
    members = dict(
        zip(
            groups.column("group_id").to_pylist(),
            groups.column("n_members").to_pylist(),
            strict=True,
        )
    )
    last = progress.column("last_ts").cast("int64")
    # only few are late, so only these become objects
    maybe = progress.filter(pc.less(last, (now_ms - least_ms) * _MS))
    for row in maybe.append_column("last", maybe.column("last_ts").cast("int64")).to_pylist():
        place = row["group_id"], row["topic"], row["partition"]
        behind, usual_ms = lag.get(place), row["usual_ms"]
        # of a deleted topic there is nothing to read, and the broker removes what was committed of it
        if row["committed_offset"] is None:
            continue
        # a group that was deleted, or whose members went when all was read, has nothing to do
        if behind == 0 or (behind is None and (usual_ms is None or members.get(place[0]) == 0)):
            continue
        since_ms = row["last"] // _MS
        if now_ms - since_ms > max(least_ms, allowance_ms(usual_ms or 0.0)):
            yield Late(*place, since_ms, usual_ms or 0.0, behind)


def known_lag(progress: Any) -> dict[tuple[str, str, int], int]:
    """Return by how many records groups are behind on partitions at least: others have committed as many more of the same ones."""
    ends = progress.group_by(["topic", "partition"]).aggregate(
        [("committed_offset", "max"), ("committed_offset", "min")]
    )
    highest, lowest = ends.column("committed_offset_max"), ends.column("committed_offset_min")
    # most partitions are read by one group alone
    differ = {
        (row["topic"], row["partition"]): row["committed_offset_max"]
        for row in ends.filter(pc.less(lowest, highest)).to_pylist()
    }
    topics = pa.array(sorted({topic for topic, _ in differ}), type=pa.string())
    found = {}
    for row in progress.filter(pc.is_in(progress.column("topic"), topics)).to_pylist():
        end = differ.get((row["topic"], row["partition"]))
        own = row["committed_offset"]
        if end is not None and own is not None and own < end:
            found[row["group_id"], row["topic"], row["partition"]] = end - own
    return found


def _rows(
    group_id: str,
    places: Mapping[tuple[str, int], int],
    lag: Mapping[tuple[str, str, int], int],
    owners: Mapping[tuple[str, int], tuple[str, str]],
    cause: str,
) -> Iterator[Standing]:
    together: defaultdict[tuple[str, tuple[str, str], str], list[int]] = defaultdict(list)
    for topic, partition in places:
        evidence = BEHIND if lag.get((group_id, topic, partition)) else SILENT
        owner = owners.get((topic, partition), ("", ""))
        together[topic, owner, evidence].append(partition)
    for (topic, (client_id, host), evidence), partitions in sorted(together.items()):
        behind = [lag.get((group_id, topic, each)) for each in partitions]
        yield Standing(
            group_id,
            topic,
            tuple(sorted(partitions)),
            min(places[topic, each] for each in partitions),
            evidence,
            sum(each or 0 for each in behind) if evidence == BEHIND else None,
            client_id,
            host,
            cause,
        )


def _newest_lag(tables: TableSource) -> dict[tuple[str, str, int], int]:
    """Return by how many records a group is behind on each partition, as far as it was sampled: a lower bound does not show nothing."""
    rows = tables.read("lag", ("group_id", "topic", "partition", "ts", "lag", "kind"))
    rows = rows.filter(pc.is_valid(rows.column("lag"))).sort_by("ts")
    found: dict[tuple[str, str, int], int] = {}
    for row in rows.to_pylist():
        place = row["group_id"], row["topic"], row["partition"]
        if row["kind"] == "sampled" or row["lag"]:
            found[place] = row["lag"]
        else:
            found.pop(place, None)
    return found


def _owners(
    tables: TableSource, seqs: Mapping[str, int]
) -> dict[str, dict[tuple[str, int], tuple[str, str]]]:
    """Return client id and host of who had each partition in a group's last generation."""
    if not seqs:
        return {}
    groups = sorted(seqs)
    hosts: dict[tuple[str, str], str] = {
        (row["group_id"], row["member_id"]): row["client_host"]
        for row in tables.read(
            "memberships", ("group_id", "member_id", "client_host"), groups
        ).to_pylist()
    }
    columns = ("group_id", "seq", "member_id", "client_id", "topic", "partition")
    found: defaultdict[str, dict[tuple[str, int], tuple[str, str]]] = defaultdict(dict)
    for row in tables.read("assignments", columns, groups).to_pylist():
        group_id = row["group_id"]
        if row["seq"] == seqs[group_id]:
            owner = row["client_id"] or "", hosts.get((group_id, row["member_id"])) or ""
            found[group_id][row["topic"], row["partition"]] = owner
    return found
