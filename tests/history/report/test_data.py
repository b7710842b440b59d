"""What the report asks of the tables; what Spark answers is in tests/spark."""

import pytest


pytest.importorskip("pyspark")

from groupsdk.history.report.data import Stretch, culprit_name, join_stretches
from tests.history.report.small import END, at


BEGINS = {0: at(0), 1: at(10), 2: at(20), 3: at(30)}
ENDS = {0: at(10), 1: at(20), 2: at(30)}


def test_what_one_client_keeps_is_one_stretch() -> None:
    cells = [(seq, "t-0", "a" if seq < 2 else "b", 1.0) for seq in range(4)]
    assert join_stretches(cells, BEGINS, ENDS, END) == [
        Stretch("t-0", "a", at(0), at(20), 1.0),
        Stretch("t-0", "b", at(20), END, 1.0),
    ]


def test_a_gap_and_another_share_end_a_stretch() -> None:
    cells = [(0, "t", "a", 1.0), (2, "t", "a", 1.0), (3, "t", "a", 0.5)]
    assert join_stretches(cells, BEGINS, ENDS, END) == [
        Stretch("t", "a", at(0), at(10), 1.0),
        Stretch("t", "a", at(20), at(30), 1.0),
        Stretch("t", "a", at(30), END, 0.5),
    ]


def test_a_clock_that_goes_back_makes_no_negative_time() -> None:
    cells = [(0, "t", "a", 1.0)]
    found = join_stretches(cells, {0: at(10)}, {0: at(5)}, END)
    assert found == [Stretch("t", "a", at(10), at(10), 1.0)]
    assert join_stretches([], {}, {}, END) == []


def test_a_client_with_many_ids_is_shown_with_where_it_runs() -> None:
    assert culprit_name(None, None, None) == ""
    assert culprit_name("worker-7", 1, "/h") == "worker-7"
    assert culprit_name("pod-*", 5, None) == "pod-* (5 ids)"
    assert culprit_name("*", 9, "/10.0.0.9") == "* (9 ids from /10.0.0.9)"
