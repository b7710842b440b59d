"""Holds the ledger that the survival tests rest on: it must refuse, and it must notice."""

from pathlib import Path

import pytest

from tests.connect.fence_ledger import FenceLedger


def test_a_smaller_token_after_a_greater_one_is_refused_and_seen(tmp_path: Path) -> None:
    ledger = FenceLedger(tmp_path)
    assert ledger.write("t0", "a", 1, 1, warm=False)
    assert ledger.write("t0", "b", 2, 2, warm=True)
    assert not ledger.write("t0", "a", 1, 2, warm=False)
    assert ledger.write("t0", "b", 2, 3, warm=False)
    audit = ledger.audit(1)
    assert [each.worker for each in audit.refused] == ["a"]
    assert (audit.writes, audit.handovers) == (3, 1)
    assert [each.warm for each in ledger.entries("t0")] == [False, True, False, False]
    assert ledger.owners(1, 0) == {"t0": "b"}


@pytest.mark.parametrize("count", [1, 5])
def test_a_state_that_was_lost_or_skipped_is_noticed(tmp_path: Path, count: int) -> None:
    ledger = FenceLedger(tmp_path)
    ledger.write("t0", "a", 1, 3, warm=False)
    ledger.write("t0", "b", 2, count, warm=False)
    with pytest.raises(AssertionError, match="count=3"):
        ledger.audit(1)


def test_two_owners_under_one_token_are_noticed(tmp_path: Path) -> None:
    ledger = FenceLedger(tmp_path)
    ledger.write("t0", "a", 1, 3, warm=False)
    ledger.write("t0", "b", 1, 4, warm=False)
    with pytest.raises(AssertionError, match="worker='b'"):
        ledger.audit(1)
