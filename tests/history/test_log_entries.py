"""Entries of brokers' logs, as rows that precede the records of their groups."""

from groupsdk.history.explain.arrow_batches import entries, log_entry_rows, stored_entries
from groupsdk.history.explain.causes import LoggedReason
from groupsdk.history.explain.departures import LoggedDeparture


def test_rows_hold_each_reason_and_departure() -> None:
    reason = LoggedReason("g", 7, 1_782_900_000_007, "Adding new member m", "join", ["join"])
    unknown = reason._replace(generation=8, cause=None, compatible=[])
    end = LoggedDeparture("g", "m", 1_782_900_000_009, "leave")
    rows = log_entry_rows(stored_entries([reason, unknown, end]))
    assert list(entries([rows])) == [reason, unknown, end]


def test_no_entries_are_no_rows() -> None:
    assert log_entry_rows([]).num_rows == 0
