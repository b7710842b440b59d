"""Kills the leader in each phase of a rebalance: nothing has two owners, is left alone, or forgets how far it was."""

import signal
from pathlib import Path

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from tests.connect.crew import Crew
from tests.connect.fence_ledger import Entry


TASKS = 12


@pytest.mark.timeout(300)
@pytest.mark.parametrize("phase", ["join", "assign", "sync", "start", "revoke"])
def test_the_leader_dies(phase: str, tmp_path: Path) -> None:
    with EmbeddedBroker() as broker, Crew(broker.bootstrap_servers, tmp_path, TASKS) as crew:
        # whoever comes first leads
        leader = crew.start("a", DIE_IN=phase)
        crew.settled(by=1)
        crew.start("b")
        crew.settled(by=2)
        (tmp_path / "armed").touch()
        # it makes the group rebalance
        crew.start("c")
        assert leader.wait(60) == -signal.SIGKILL
        crew.settled(by=2)
        audit = crew.ledger.audit(TASKS)
        assert audit.handovers >= 1
        assert audit.refused == []
        assert {entry.worker for entry in last_entries(crew)} == {"b-0", "c-0"}


@pytest.mark.timeout(300)
def test_a_standby_takes_over_with_what_it_has_loaded(tmp_path: Path) -> None:
    """Although what is lost without a standby would be held back for five minutes."""
    with (
        EmbeddedBroker() as broker,
        Crew(broker.bootstrap_servers, tmp_path, TASKS, STANDBY=1, DELAY_MS=300_000) as crew,
    ):
        crew.start("a")
        crew.start("b")
        crew.start("c")
        crew.settled(by=3)
        # by then each has said of what it is a standby
        crew.settled(by=3)
        lost = {task for task, worker in crew.ledger.owners(TASKS, 0).items() if worker == "b-0"}
        crew.processes["b"].kill()
        crew.settled(by=2)
        audit = crew.ledger.audit(TASKS)
        assert audit.refused == []
        assert lost
        for task in lost:
            entries = crew.ledger.entries(task)
            # of the run that followed its owner's
            assert next(each.warm for each in reversed(entries)), entries[-3:]


def last_entries(crew: Crew) -> list[Entry]:
    return [crew.ledger.entries(f"t{number}")[-1] for number in range(TASKS)]
