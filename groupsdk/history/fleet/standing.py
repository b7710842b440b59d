"""Find the partitions that stand still at the end of a cluster's log: who should read them, and since when nobody does."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow.compute as pc

from groupsdk.history.explain.commit_spans import allowance_ms
from groupsdk.history.report.tables import TableSource


STANDING_MS: Final = 30_000
"""A partition stands still if it was not committed for this long before the log's end, and for longer than it may be."""
_MS: Final = 1_000

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


class _Commits(NamedTuple):
    first_ms: int
    last_ms: int
    times: int


def log_end_ms(tables: TableSource) -> int | None:
    """Return the time of the last record, in milliseconds; None if the log is empty."""
    newest = pc.max(tables.read("quality", ("last_ts",)).column("last_ts").cast("int64")).as_py()
    return None if newest is None else newest // _MS


def standing(
    tables: TableSource, now_ms: int, *, least_ms: int = STANDING_MS
) -> Iterator[Standing]:
    """Yield what stands still at `now_ms`, group by group.

    A partition stands still if it was last committed more than `least_ms`, and more than twice its usual interval, before, unless the
    group is known to have read all of it. A group without members that has read everything, and one that committed a partition
    once, do not stand still.
    """
    commits = _commits(tables)
    lag = _newest_lag(tables)
    late: defaultdict[str, dict[tuple[str, int], int]] = defaultdict(dict)
    for (group_id, topic, partition), each in commits.items():
        behind = lag.get((group_id, topic, partition))
        usual_ms = _usual_ms(each)
        if behind == 0 or (behind is None and usual_ms is None):
            continue
        if now_ms - each.last_ms > max(least_ms, allowance_ms(usual_ms or 0.0)):
            late[group_id][topic, partition] = each.last_ms
    last = _last_generations(tables)
    owners = _owners(tables, {group: last[group].seq for group in late if group in last})
    for group_id, places in sorted(late.items()):
        generation = last.get(group_id)
        # a group that was deleted, or whose members went when all was read, has nothing to do
        if generation is not None and not generation.n_members:
            places = {each: ms for each, ms in places.items() if lag.get((group_id, *each))}
        yield from _rows(group_id, places, lag, owners.get(group_id, {}), generation)


def _usual_ms(commits: _Commits) -> float | None:
    if commits.times < 2:
        return None
    return (commits.last_ms - commits.first_ms) / (commits.times - 1)


class _Generation(NamedTuple):
    seq: int
    n_members: int
    cause: str


def _rows(
    group_id: str,
    places: Mapping[tuple[str, int], int],
    lag: Mapping[tuple[str, str, int], int],
    owners: Mapping[tuple[str, int], tuple[str, str]],
    generation: _Generation | None,
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
            "" if generation is None else generation.cause,
        )


def _commits(tables: TableSource) -> dict[tuple[str, str, int], _Commits]:
    columns = ("group_id", "topic", "partition", "first_commit_ts", "last_commit_ts", "commits")
    rows = tables.read("commit_spans", columns)
    keys = ["group_id", "topic", "partition"]
    found = rows.group_by(keys).aggregate(
        [("last_commit_ts", "max"), ("first_commit_ts", "min"), ("commits", "sum")]
    )
    last, first = (
        found.column(f"{name}_commit_ts_{kind}").cast("int64").to_pylist()
        for name, kind in (("last", "max"), ("first", "min"))
    )
    places = zip(*(found.column(key).to_pylist() for key in keys), strict=True)
    counts = found.column("commits_sum").to_pylist()
    return {
        place: _Commits(begin // _MS, end // _MS, times)
        for place, end, begin, times in zip(places, last, first, counts, strict=True)
        if end is not None and begin is not None
    }


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


def _last_generations(tables: TableSource) -> dict[str, _Generation]:
    rows = tables.read("generations", ("group_id", "seq", "n_members", "primary_cause"))
    newest = rows.group_by("group_id").aggregate([("seq", "max")])
    last = dict(
        zip(
            newest.column("group_id").to_pylist(), newest.column("seq_max").to_pylist(), strict=True
        )
    )
    return {
        row["group_id"]: _Generation(row["seq"], row["n_members"], row["primary_cause"])
        for batch in rows.to_batches()
        for row in batch.to_pylist()
        if row["seq"] == last[row["group_id"]]
    }


def _owners(
    tables: TableSource, seqs: Mapping[str, int]
) -> dict[str, dict[tuple[str, int], tuple[str, str]]]:
    """Return client id and host of who had each partition in a group's last generation."""
    if not seqs:
        return {}
    groups = sorted(seqs)
    hosts: dict[tuple[str, str], str] = {
        (row["group_id"], row["member_id"]): row["client_host"]
        for row in _dicts(
            tables.read("memberships", ("group_id", "member_id", "client_host"), groups)
        )
    }
    columns = ("group_id", "seq", "member_id", "client_id", "topic", "partition")
    found: defaultdict[str, dict[tuple[str, int], tuple[str, str]]] = defaultdict(dict)
    for row in _dicts(tables.read("assignments", columns, groups)):
        group_id = row["group_id"]
        if row["seq"] == seqs[group_id]:
            owner = row["client_id"] or "", hosts.get((group_id, row["member_id"])) or ""
            found[group_id][row["topic"], row["partition"]] = owner
    return found


def _dicts(rows: Any) -> Iterable[dict[str, Any]]:
    for batch in rows.to_batches():
        yield from batch.to_pylist()
