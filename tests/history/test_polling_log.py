"""Members that poll too seldom, held to what was done to them; and to what the coordinator said, which does not know."""

from typing import Any

import pytest

from groupsdk.history.pipeline import Options
from tests.history.expected_tables import explained
from tests.history.recording.polling import GROUPS
from tests.history.truth import Truths


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    names = ("generations", "departures", "advice")
    root = tmp_path_factory.mktemp("polling")
    return explained("polling", root, names, Options(assignors=()))


@pytest.mark.parametrize("group", GROUPS)
def test_members_that_worked_for_too_long_are_told_from_those_that_died(
    group: str, tables: dict[str, list[dict[str, Any]]]
) -> None:
    rows = [row for row in tables["departures"] if row["group_id"] == group]
    rows.sort(key=lambda row: row["seq"])
    assert [(row["client_id"], row["reason"]) for row in rows[:4]] == [
        *(("a", "poll_timeout"), ("b", "poll_timeout")),
        *(("c", "expiry"), ("d", "leave")),
    ]
    assert min(row["confidence"] for row in rows[:4]) >= 0.7
    advice = {row["advice"] for row in tables["advice"] if row["group_id"] == group}
    assert "poll_interval" in advice
    assert "longer_session" not in advice


def test_causes_are_compatible_with_what_the_coordinator_said(
    tables: dict[str, list[dict[str, Any]]],
) -> None:
    judged = Truths.of("polling").judge(tables["generations"])
    assert len(judged) > 40
    assert [each for each in judged if not each.is_right] == []
