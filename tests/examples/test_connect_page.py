"""Follows docs/connect.md as a new user does: its program, its commands, its requests, a kill."""

import argparse
import json
import re
import shlex
import signal
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing.ports import ReservedPorts
from tests.connect.workers import eventually
from tests.examples.process import ROOT, ExampleProcess


PAGE = (ROOT / "docs/connect.md").read_text()
COUNTED = re.compile(r"^(\w+) is at (\d+) at ", re.MULTILINE)


class NewUser:
    """Types what a section says, with a broker, ports and files of the test's own instead of the page's."""

    def __init__(
        self,
        directory: Path,
        servers: str,
        ports: tuple[int, ...],
        heading: str = "Two connectors on three workers",
    ) -> None:
        places = {"localhost:9092": servers, "/var/log/": f"{directory}/", "/tmp/": f"{directory}/"}
        places |= {str(8083 + number): str(port) for number, port in enumerate(ports)}
        # at once: a place of the test may hold one of the page
        text = re.sub("|".join(map(re.escape, places)), lambda found: places[found[0]], PAGE)
        section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        self.workers: dict[int, ExampleProcess] = {}
        self._directory = directory
        self._ports = ports
        self._commands = [
            shlex.split(each.replace("\\\n", " "))
            for block in re.findall(r"^```sh\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
            for each in re.findall(r"^((?:.*\\\n)*.+)$", block, re.MULTILINE)
        ]
        for program in re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE):
            (directory / "watchers.py").write_text(program)

    def starts(self, *words: str) -> list[list[str]]:
        return [each for each in self._commands if tuple(each[: len(words)]) == words]

    def start(self, number: int, stack: ExitStack) -> int:
        """Start a worker in a terminal; returns its process id."""
        command = ["-m", *self.starts("groupsdk", "worker")[number]]
        worker = stack.enter_context(ExampleProcess(*command, cwd=self._directory))
        self.workers[worker.pid] = worker
        return worker.pid

    def curl(self, number: int, name: str | None = None) -> Any:
        """Send a request of the page, perhaps for the connector `name` instead; None: it was refused."""
        parser = argparse.ArgumentParser()
        for option in ("-X", "-H", "-d"):
            parser.add_argument(option)
        parser.add_argument("url")
        given = parser.parse_args(self.starts("curl")[number][1:])
        kind, _, value = (given.H or "Accept: application/json").partition(": ")
        data = None if given.d is None else given.d.encode()
        request = urllib.request.Request(
            re.sub("counters(?=/status)", name or "counters", f"http://{given.url}"),
            data,
            {kind: value},
            method=given.X or "GET",
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except OSError:
            return None

    def listening(self) -> bool:
        """Whether all workers accept connections."""
        for port in self._ports:
            try:
                socket.create_connection(("127.0.0.1", port), 5).close()
            except OSError:
                return False
        return True

    def owners(self, name: str = "counters", tasks: int = 3) -> list[int]:
        """The process ids of the workers that run a connector's tasks, by the numbers of the tasks."""
        status = self.curl(2, name) or {"tasks": []}
        pids = [int(each["worker_id"].rpartition(":")[2] or 0) for each in status["tasks"]]
        return pids if len(pids) == tasks and set(pids) <= self.workers.keys() else []

    def busy(self) -> set[int]:
        """The process ids of the workers that run a task of either connector; none unless all tasks run."""
        counters, logs = self.owners(), self.owners("logs", 2)
        return {*counters, *logs} if counters and logs else set()

    def counts(self) -> dict[str, list[int]]:
        """All that was counted so far, by the names."""
        found: dict[str, list[int]] = {}
        for worker in self.workers.values():
            for name, count in COUNTED.findall("\n".join(worker.lines)):
                found.setdefault(name, []).append(int(count))
        return {name: sorted(counts) for name, counts in found.items()}

    def said(self) -> str:
        """What the workers printed last."""
        return "\n".join(line for each in self.workers.values() for line in each.lines[-15:])


@pytest.fixture
def user(tmp_path: Path) -> Iterator[NewUser]:
    """A new user, with a broker."""
    with EmbeddedBroker() as broker, ReservedPorts(3) as reserved:
        yield NewUser(tmp_path, broker.bootstrap_servers, reserved.ports)


@pytest.mark.timeout(300)
def test_two_connectors_run_on_three_workers_and_survive_a_kill(user: NewUser) -> None:
    with ExitStack() as stack:
        pids = [user.start(number, stack) for number in range(3)]
        eventually(user.listening, user.said)
        # pasted together, each once
        assert user.curl(0)
        assert user.curl(1)
        ((_, *words),) = user.starts("echo")
        assert words == ["hello", ">>", "one.log"]
        (user._directory / "one.log").write_text("hello\n")
        assert user.curl(2)
        eventually(lambda: len(user.busy()) == 3, user.said)
        eventually(lambda: "one.log: hello" in user.said(), user.said)
        eventually(
            lambda: [len(each) > 1 for each in user.counts().values()] == [True] * 3, user.said
        )
        mine = {name for name, _ in COUNTED.findall("\n".join(user.workers[pids[2]].lines))}
        assert user.workers.pop(pids[0]).end(signal.SIGINT) == 0
        eventually(lambda: user.busy() == set(pids[1:]), user.said)
        user.workers.pop(pids[1]).end(signal.SIGKILL)
        eventually(lambda: user.busy() == {pids[2]}, user.said, 60)
        eventually(lambda: len(user.counts()) == 3, user.said)
        # it went on where the others were
        assert {name for name, counts in user.counts().items() if counts[0] > 1} >= (
            user.counts().keys() - mine
        )
        again = user.start(0, stack)
        eventually(lambda: again in user.busy(), user.said)


@pytest.mark.timeout(300)
def test_the_worker_of_the_section_about_http_takes_its_requests(tmp_path: Path) -> None:
    (tmp_path / "syslog").write_text("hello\n")
    with EmbeddedBroker() as broker, ReservedPorts(1) as reserved, ExitStack() as stack:
        user = NewUser(tmp_path, broker.bootstrap_servers, reserved.ports, "HTTP")
        user.start(0, stack)
        eventually(user.listening, user.said)
        assert user.curl(0)
        eventually(lambda: (tmp_path / "lines").exists(), user.said)
        assert user.curl(1)["connector"]["state"] == "RUNNING"
