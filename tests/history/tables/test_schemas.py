"""The tables as they are declared."""

import re

import pytest

from groupsdk.history.tables.schemas import TABLES


def test_the_tables_of_the_history_are_all_there() -> None:
    assert set(TABLES) >= {
        *("raw_records", "offset_commits", "generations", "memberships", "assignments", "moves"),
        *("lag", "storms", "replay", "replay_summary", "quality", "rejects"),
    }


@pytest.mark.parametrize("name", TABLES)
def test_a_table_says_what_a_row_is_and_what_tells_two_apart(name: str) -> None:
    table = TABLES[name]
    assert table.name == name
    assert table.about
    assert set(table.keys) <= set(table.columns)
    assert set(table.partition_by) <= set(table.columns)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", column) for column in table.columns)
    for column, kind in table.columns.items():
        assert f"`{column}` {kind}" in table.ddl


def test_every_row_of_the_log_says_where_it_comes_from() -> None:
    for name in (
        "raw_records",
        "offset_commits",
        "generations",
        "memberships",
        "assignments",
        "moves",
    ):
        assert {"src_partition", "src_offset"} <= set(TABLES[name].columns)
