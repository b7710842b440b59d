"""Holds a thousand tasks on twenty workers for a short time of churn; `make churn` does so for as long as you like."""

from pathlib import Path

import pytest

from tests.connect.churn import Churn


@pytest.mark.timeout(400)
def test_under_churn_no_task_has_two_owners_and_none_loses_its_state(tmp_path: Path) -> None:
    churn = Churn(tmp_path, seed=5)
    audit = churn.run(12)
    assert sum(churn.events.values()) >= 2
    assert audit.handovers >= 100
    assert audit.writes >= 2_000
