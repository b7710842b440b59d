"""What is of the whole log: names of topics, coordinators, session timeouts, quality, lag."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from groupsdk.history.explain import SIZES
from groupsdk.history.read.whole_log import (
    lower_bounds,
    quality_table,
    session_timeout,
    took_over,
    topic_names,
    topics_table,
)
from groupsdk.history.tables.stage_files import schema_of
from groupsdk.history.tables.stages import COVERAGE, STAGED, TALLY, TOPIC_HINTS


START = datetime(2026, 10, 2, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return a time of the tests."""
    return START + timedelta(seconds=seconds)


def stage(name: str, *rows: dict[str, Any]) -> Any:
    """Make a stage of a few rows; a column that a row does not have is null."""
    return pa.Table.from_pylist(list(rows), schema=STAGED[name])


def nothing(groups: Collection[str]) -> Mapping[tuple[str, str], int]:
    """Have no group commit anything."""
    assert groups
    return {}


def test_names_that_are_given_go_before_those_that_the_log_tells() -> None:
    told = stage(
        TOPIC_HINTS,
        {"topic_id": "id-1", "topic": "old", "is_open": False},
        {"topic_id": "id-2", "topic": "two", "is_open": False},
        {"topic_id": "id-2", "topic": "zwei", "is_open": False},
    )
    found = topic_names(told, [("id-1", "new")], nothing)
    assert found == {"id-1": "new", "id-2": "two"}
    assert topics_table(found).column("topic").to_pylist() == ["new", "two"]


def subscribes(group: str, *topics: str) -> list[dict[str, Any]]:
    """Say that members of a group subscribe to topics."""
    return [{"group_id": group, "topic": each, "is_open": False} for each in topics]


def assigned(group: str, **counts: int) -> list[dict[str, Any]]:
    """Say that members of a group are to get as many partitions of topics, by their ids."""
    return [
        {
            "group_id": group,
            "topic_id": f"id-{name}",
            "last_partition": count - 1,
            "is_open": False,
        }
        for name, count in counts.items()
    ]


def test_names_follow_from_what_groups_subscribe_to_and_commit() -> None:
    told = stage(
        TOPIC_HINTS,
        # one topic
        *subscribes("one", "a"),
        *assigned("one", a=3),
        # two, of which the commits tell which is which
        *subscribes("two", "b", "c"),
        *assigned("two", b=2, c=9),
        # two that are alike: nobody knows
        *subscribes("alike", "d", "e"),
        *assigned("alike", d=4, e=4),
        # one of them is told by another group, whose only topic it is
        *subscribes("more", "f", "g"),
        *assigned("more", f=4, g=4),
        *subscribes("less", "f"),
        *assigned("less", f=4),
        # any topic may be that of a pattern
        {"group_id": "open", "is_open": True},
        *subscribes("open", "i"),
        *assigned("open", i=1),
    )
    found = topic_names(told, [("known", "known")], lambda _: {("two", "c"): 7})
    assert found == {"known": "known", **{f"id-{name}": name for name in "abcf"}}


def test_a_topic_that_has_a_name_explains_its_commits() -> None:
    """Of a group that commits two topics, one id is known: the commits of that topic are no sign for the other id."""
    told = stage(
        TOPIC_HINTS,
        *subscribes("paying", "events", "orders"),
        *assigned("paying", events=4, orders=8),
        {"group_id": None, "topic": "events", "topic_id": "id-events", "is_open": False},
    )
    highest = {("paying", "events"): 3, ("paying", "orders"): 7}
    found = topic_names(told, (), lambda _: highest)
    assert found == {"id-events": "events", "id-orders": "orders"}


def test_a_leader_took_over_when_it_first_wrote() -> None:
    covered = stage(
        COVERAGE,
        {"src_partition": 1, "leader_epoch": 3, "since": at(9)},
        {"src_partition": 1, "leader_epoch": 3, "since": at(5)},
        {"src_partition": 1, "leader_epoch": 4, "since": None},
    )
    assert took_over(covered) == {(1, 3): int(at(5).timestamp() * 1000)}


def test_sessions_last_as_long_as_several_members_were_silent() -> None:
    sizes = [
        {"size": 38, "length": 5_100},
        {"size": 38, "length": 5_050},
        {"size": 50, "length": 80_000},
    ]
    assert session_timeout(stage(SIZES, *sizes)) == 5_050
    assert session_timeout(stage(SIZES, sizes[0], sizes[2])) is None


def test_the_quality_is_summed_up_over_tasks() -> None:
    covered = stage(
        COVERAGE,
        *(
            {
                "src_partition": 5,
                "leader_epoch": epoch,
                "first_offset": first,
                "last_offset": last,
                "records": last - first + 1,
                "first_ts": at(first),
                "last_ts": at(last),
            }
            for epoch, first, last in ((0, 0, 3), (1, 10, 12))
        ),
    )
    tally = stage(
        TALLY,
        *({"src_partition": 5, "what": what, "n": 2} for what in ("undecodable", "type 99")),
        {"src_partition": 5, "what": "undecodable", "n": 1},
        {"src_partition": 6, "what": "bad_batches", "n": 4},
    )
    known, torn = quality_table(covered, tally).to_pylist()
    assert (known["records"], known["offset_gaps"], known["undecodable"]) == (7, 6, 3)
    assert (known["unknown_types"], known["missing_generations"]) == ([(99, 2)], 0)
    assert (known["first_ts"], known["last_ts"]) == (at(0), at(12))
    assert (torn["src_partition"], torn["bad_batches"], torn["first_offset"]) == (6, 4, None)


def test_lag_in_a_whole_log_is_at_least_the_commits_of_others() -> None:
    spans = [
        {
            "group_id": group,
            "topic": topic,
            "partition": 0,
            "last_commit_ts": at(second),
            "last_offset": end,
        }
        for group, topic, second, end in (
            ("a", "t", 1, 5),
            ("b", "t", 2, 90),
            ("a", "t", 3, 30),
            # at the same time each counts for all
            ("a", "u", 1, 7),
            ("b", "u", 1, 9),
        )
    ]
    schema = schema_of("commit_spans")
    found = lower_bounds(pa.Table.from_pylist(spans, schema=schema))
    lags = zip(
        *(found.column(name).to_pylist() for name in ("group_id", "topic", "ts", "lag")),
        strict=True,
    )
    assert sorted(lags) == [
        ("a", "t", at(1), 0),
        ("a", "t", at(3), 60),
        ("a", "u", at(1), 2),
        ("b", "t", at(2), 0),
        ("b", "u", at(1), 0),
    ]
    assert lower_bounds(schema.empty_table()).num_rows == 0
