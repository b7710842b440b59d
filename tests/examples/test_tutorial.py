"""Does what docs/tutorial.md says, with its files as they stand on the page."""

import contextlib
import re
import signal
import sqlite3
from pathlib import Path

import pytest

from docs.page_blocks import file_of
from groupsdk.broker.embedded import EmbeddedBroker
from tests.examples.process import ROOT, ExampleProcess
from tests.support.workers import eventually


PAGE = ROOT / "docs/tutorial.md"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files of the tutorial."""
    for name in ("jobs.py", "test_jobs.py"):
        (tmp_path / name).write_text(file_of(PAGE, name).code)
    return tmp_path


def pause(worker: ExampleProcess, path: Path) -> None:
    """Stop a worker where it holds no lock of the database: it would hold up all others for as long."""

    def paused() -> bool:
        worker.send(signal.SIGSTOP)
        status = Path(f"/proc/{worker.pid}/stat")
        eventually(lambda: status.read_text().rpartition(")")[2].split()[0] == "T")
        with contextlib.closing(sqlite3.connect(path, timeout=0)) as database:
            try:
                database.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError:
                worker.send(signal.SIGCONT)
                return False
            database.rollback()
        return True

    eventually(paused)


class Queues:
    """The queues of a worker, from what it prints."""

    def __init__(self, worker: ExampleProcess) -> None:
        self._worker = worker
        self.owned: set[str] = set()

    def wait_for(self, count: int) -> set[str]:
        """Wait until the worker has so many queues; return them."""
        while len(self.owned) != count:
            line = self._worker.wait_for(r"^(gained|released|lost): ").string
            named = set(re.findall(r"queue-\d", line))
            self.owned = self.owned | named if line.startswith("gained") else self.owned - named
        return self.owned


def test_queues_are_shared_and_handed_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = {f"queue-{number}" for number in range(8)}
    with EmbeddedBroker() as broker:
        monkeypatch.setenv("BOOTSTRAP", broker.bootstrap_servers)
        with ExampleProcess("jobs.py", cwd=folder) as first:
            assert first.wait_for("^gained: ").string in PAGE.read_text().splitlines()
            of_first = Queues(first)
            of_first.owned = set(everything)
            with ExampleProcess("jobs.py", cwd=folder) as second:
                halves = Queues(second).wait_for(4), of_first.wait_for(4)
                assert halves[0] | halves[1] == everything
                second.send(signal.SIGKILL)
                assert of_first.wait_for(8) == everything
            with ExampleProcess("jobs.py", cwd=folder) as third:
                of_third = Queues(third)
                of_third.wait_for(4)
                of_first.wait_for(4)
                pause(third, folder / "results.db")
                assert of_first.wait_for(8) == everything
                third.send(signal.SIGCONT)
                of_third.wait_for(0)
                of_third.wait_for(4)
                of_first.wait_for(4)
                assert third.end(signal.SIGTERM) == 0
            assert of_first.wait_for(8) == everything
            assert first.end(signal.SIGINT) == 0
