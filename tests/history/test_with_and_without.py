"""Advice held to logs in which the change was really made: the same work recorded with it and without it."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.history.expected_tables import explained


WAYS = ("without", "with")
Tables = dict[str, dict[str, list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The tables of both logs."""
    names = ("generations", "advice", "replay_summary")
    return {
        way: explained(f"with_and_without/{way}", tmp_path_factory.mktemp(way), names)
        for way in WAYS
    }


def rebalances(rows: dict[str, list[dict[str, Any]]], group: str) -> int:
    """Count the rebalances of a group."""
    return sum(
        row["group_id"] == group and row["primary_cause"] != "created"
        for row in rows["generations"]
    )


def happened(column: str) -> Callable[[dict[str, list[dict[str, Any]]], str], int]:
    """Return what looks up a total of what happened to a group."""

    def total(rows: dict[str, list[dict[str, Any]]], group: str) -> int:
        (found,) = (
            row[column]
            for row in rows["replay_summary"]
            if (row["group_id"], row["assignor"]) == (group, "actual")
        )
        return int(found)

    return total


@pytest.mark.parametrize(
    ("group", "column", "total", "off"),
    [
        ("static-membership", "rebalances", rebalances, 1),
        # the members of the changed log start together, as its broker waits for them
        ("longer-session", "rebalances", rebalances, 2),
        ("initial-delay", "rebalances", rebalances, 1),
        # all members stop one shortly after the other, which the group may see as several rebalances
        ("restart-together", "rebalances", rebalances, 3),
        ("other-assignor", "moves", happened("moves"), 3),
        ("cooperative", "moves", happened("moves"), 3),
        ("cooperative", "revoked", happened("revoked"), 5),
    ],
)
def test_advice_for_one_log_predicts_the_other_log(
    group: str,
    column: str,
    total: Callable[[dict[str, list[dict[str, Any]]], str], int],
    off: int,
    tables: Tables,
) -> None:
    (told,) = (
        row
        for row in tables["without"]["advice"]
        if (row["group_id"], row["advice"]) == (group, group.replace("-", "_"))
    )
    before, after = (total(tables[way], group) for way in WAYS)
    assert told[column] > 3
    assert abs(before - told[column] - after) <= off, (before, told[column], after)


def test_the_number_has_its_generations(tables: Tables) -> None:
    for row in tables["without"]["advice"]:
        assert row["evidence"]
        if row["rebalances"]:
            assert len(row["evidence"]) == row["rebalances"] <= row["of_rebalances"]


def test_change_that_was_made_is_not_advised(tables: Tables) -> None:
    found = {(row["group_id"], row["advice"]) for row in tables["with"]["advice"]}
    changed = {(each, each.replace("-", "_")) for each in ("static-membership", "cooperative")}
    assert not found & changed
