"""Compute the facts about the whole log: topic names, coordinators, session timeouts, quality, lag.

It takes what the tasks of a stage have summed up, as Arrow tables, and runs once, on the driver.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupsdk.history.explain.departures import learned_session_timeout
from groupsdk.history.explain.explaining import MISSING, UNDECODABLE, UNKNOWN
from groupsdk.history.read.reading import BAD_BATCHES
from groupsdk.history.tables.schemas import TABLES


LOWER_BOUND: Final = "lower_bound"
"""Against the highest offset that any group had committed by then: the lag is that, or more."""
SAMPLED: Final = "sampled"
"""Against the ends of the partitions, as they were asked for at the time."""

LAG_COLUMNS: Final = ("group_id", "topic", "partition", "last_commit_ts", "last_offset")
"""The columns of `commit_spans` that `lower_bounds` takes."""

Committed = Callable[[Collection[str]], Mapping[tuple[str, str], int]]
"""Takes groups, and returns the highest partition that each has committed of each topic."""


def topic_names(
    hints: Any, given: Iterable[tuple[str, str]], committed: Committed
) -> dict[str, str]:
    """Return the names of the topics that records of the newer protocols refer to by id.

    Commits name a topic by both since Kafka 4.1, records of groups did so before it. The names `given` by a cluster take precedence;
    `committed` is called only if names have to be inferred.
    """
    found: dict[str, str] = {}
    rows = hints.to_pylist()
    for row in rows:
        if row["topic"] is not None and row["topic_id"] is not None:
            topic_id, topic = row["topic_id"], row["topic"]
            found[topic_id] = min(found.get(topic_id, topic), topic)
    own = dict(sorted(given, reverse=True))
    return {**found, **own, **_inferred(rows, {**found, **own}, committed)}


def _inferred(
    rows: list[dict[str, Any]], known: Mapping[str, str], committed: Committed
) -> dict[str, str]:
    """Infer names from the groups' subscriptions and commits.

    Where nothing names an id, as in the log of a group that commits in transactions only, it is one of the topics that
    the groups which are assigned it subscribe to, and it has at least as many partitions as they committed of that one.
    Where that leaves one name for an id, or one id for what was committed, it has the name: none is guessed.
    """
    unnamed, names = _subscribed(rows, known)
    if not unnamed:
        return {}
    highest = committed({group for group, _ in unnamed})
    fits = [
        (group, topic_id, topic)
        for (group, topic_id), last in unnamed.items()
        for topic in names[group]
        if highest.get((group, topic), -1) <= last
    ]
    choices = _agreed(fits, unnamed)
    # or the commits of one group can be of no other id
    explained = {
        (row["group_id"], known[row["topic_id"]])
        for row in rows
        if row["group_id"] is not None and row["topic_id"] in known
    }
    only: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for group, topic_id, topic in fits:
        if (group, topic) in highest and (group, topic) not in explained:
            only[group, topic].append(topic_id)
    for (_, topic), ids in only.items():
        if len(ids) == 1:
            choices[ids[0]].add(topic)
    return {topic_id: next(iter(each)) for topic_id, each in choices.items() if len(each) == 1}


def _subscribed(
    rows: list[dict[str, Any]], known: Collection[str]
) -> tuple[dict[tuple[str, str], int], defaultdict[str, set[str]]]:
    """Return the assigned ids without a name, with their last partitions, and the groups' subscriptions."""
    # a group that subscribes to a pattern may have any topic
    is_open = {row["group_id"] for row in rows if row["is_open"]}
    unnamed: dict[tuple[str, str], int] = {}
    names: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        group, topic, topic_id = row["group_id"], row["topic"], row["topic_id"]
        if group is None:
            continue
        if topic is not None:
            names[group].add(topic)
        elif topic_id is not None and topic_id not in known and group not in is_open:
            place = group, topic_id
            unnamed[place] = max(unnamed.get(place, -1), row["last_partition"])
    return unnamed, names


def _agreed(
    fits: Iterable[tuple[str, str, str]], unnamed: Iterable[tuple[str, str]]
) -> defaultdict[str, set[str]]:
    """Return the ids for which all their groups agree on one name."""
    groups = Counter(topic_id for _, topic_id in unnamed)
    agreeing = Counter((topic_id, topic) for _, topic_id, topic in fits)
    names: defaultdict[str, list[str]] = defaultdict(list)
    for (topic_id, topic), many in agreeing.items():
        if many == groups[topic_id]:
            names[topic_id].append(topic)
    found: defaultdict[str, set[str]] = defaultdict(set)
    for topic_id, topics in names.items():
        if len(topics) == 1:
            found[topic_id].add(topics[0])
    return found


def topics_table(names: Mapping[str, str]) -> Any:
    return pa.table(
        {"topic_id": list(names), "topic": list(names.values())},
        schema=TABLES["topics"].arrow_schema,
    )


def took_over(coverage: Any) -> dict[tuple[int, int], int]:
    """Return when each leader of a partition of the log first wrote a record, in milliseconds, by partition and leader epoch."""
    found: dict[tuple[int, int], int] = {}
    times = coverage.column("since").cast(pa.int64()).to_pylist()
    places = zip(
        coverage.column("src_partition").to_pylist(),
        coverage.column("leader_epoch").to_pylist(),
        strict=True,
    )
    for place, time in zip(places, times, strict=True):
        if time is not None:
            found[place] = min(found.get(place, time // 1000), time // 1000)
    return found


def session_timeout(sizes: Any) -> int | None:
    return learned_session_timeout(
        zip(sizes.column("size").to_pylist(), sizes.column("length").to_pylist(), strict=True)
    )


def quality_table(coverage: Any, tally: Any) -> Any:
    """Return the Arrow table `quality`, with one row for each partition of the log.

    Offsets missing between the first and the last (`offset_gaps`) were removed by compaction, or were in bad
    batches or missing files. A group has missing generations if its numbers are not consecutive.
    """
    covered = coverage.group_by("src_partition").aggregate(
        [
            ("first_offset", "min"),
            ("last_offset", "max"),
            ("records", "sum"),
            ("first_ts", "min"),
            ("last_ts", "max"),
        ]
    )
    rows: dict[int, dict[str, Any]] = {}
    for each in covered.to_pylist():
        first, last, records = (
            each["first_offset_min"],
            each["last_offset_max"],
            each["records_sum"],
        )
        rows[each["src_partition"]] = {
            **_empty(each["src_partition"]),
            "first_offset": first,
            "last_offset": last,
            "records": records,
            "offset_gaps": last - first + 1 - records,
            "first_ts": each["first_ts_min"],
            "last_ts": each["last_ts_max"],
        }
    types: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for each in tally.group_by(["src_partition", "what"]).aggregate([("n", "sum")]).to_pylist():
        partition, what = each["src_partition"], each["what"]
        row = rows.setdefault(partition, _empty(partition))
        if what in (BAD_BATCHES, UNDECODABLE, MISSING):
            row[what] = each["n_sum"]
        else:
            types[partition][int(what.removeprefix(UNKNOWN))] = each["n_sum"]
    for partition, found in types.items():
        rows[partition]["unknown_types"] = sorted(found.items())
    return pa.Table.from_pylist(
        [rows[each] for each in sorted(rows)], schema=TABLES["quality"].arrow_schema
    )


def _empty(partition: int) -> dict[str, Any]:
    return {
        "src_partition": partition,
        "records": 0,
        "offset_gaps": 0,
        BAD_BATCHES: 0,
        UNDECODABLE: 0,
        MISSING: 0,
        "unknown_types": [],
    }


def lower_bounds(spans: Any) -> Any:
    """Make the table `lag` from `commit_spans` alone: the log does not hold the ends of partitions.

    Holds the spans it is given, with all that are of one partition.
    """
    schema = TABLES["lag"].arrow_schema
    if not spans.num_rows:
        return schema.empty_table()
    places = pc.dictionary_encode(spans.column("topic").combine_chunks())
    topics = places.indices.to_numpy().astype(np.int64)
    partitions = spans.column("partition").to_numpy().astype(np.int64)
    times = spans.column("last_commit_ts").cast(pa.int64()).fill_null(-1).to_numpy()
    offsets = spans.column("last_offset").to_numpy()
    order = np.lexsort((times, partitions, topics))
    begins = np.flatnonzero(_changed(topics[order]) | _changed(partitions[order]))
    peers = np.flatnonzero(
        _changed(topics[order]) | _changed(partitions[order]) | _changed(times[order])
    )
    highest = np.empty(len(order), dtype=np.int64)
    for begin, end in zip(begins, [*begins[1:], len(order)], strict=True):
        highest[begin:end] = np.maximum.accumulate(offsets[order[begin:end]])
    # commits at the same time count for each other
    stops = np.append(peers[1:], len(order)) - 1
    highest = np.repeat(highest[stops], np.diff(np.append(peers, len(order))))
    by_row = np.empty(len(order), dtype=np.int64)
    by_row[order] = highest
    return pa.table(
        {
            "group_id": spans.column("group_id"),
            "topic": spans.column("topic"),
            "partition": spans.column("partition"),
            "ts": spans.column("last_commit_ts"),
            "committed_offset": spans.column("last_offset"),
            "end_offset": pa.array(by_row),
            "lag": pa.array(by_row - offsets),
            "time_lag_ms": pa.nulls(spans.num_rows, pa.int64()),
            "kind": pa.repeat(pa.scalar(LOWER_BOUND), spans.num_rows),
        },
        schema=schema,
    )


def _changed(values: Any) -> Any:
    changed = np.ones(len(values), dtype=np.bool_)
    changed[1:] = values[1:] != values[:-1]
    return changed
