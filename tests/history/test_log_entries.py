"""Entries of brokers' logs, as rows that precede the records of their groups."""

from groupsdk.history.explain.arrow_batches import entries, log_entries, log_entry_rows
from groupsdk.history.explain.causes import LoggedReason
from groupsdk.history.explain.departures import LoggedDeparture
from groupsdk.history.explain.explaining import BrokerLogEntries


def test_rows_hold_each_reason_and_departure() -> None:
    reason = LoggedReason(7, 1_782_900_000_007, "Adding new member m", "join", ["join"])
    unknown = reason._replace(generation=8, cause=None, compatible=[])
    end = LoggedDeparture("m", 1_782_900_000_009, "leave")
    rows = log_entry_rows(log_entries([BrokerLogEntries("g", (reason, unknown), (end,))]))
    assert list(entries([rows])) == [
        BrokerLogEntries("g", (reason,), ()),
        BrokerLogEntries("g", (unknown,), ()),
        BrokerLogEntries("g", (), (end,)),
    ]


def test_no_entries_are_no_rows() -> None:
    assert log_entry_rows([]).num_rows == 0
