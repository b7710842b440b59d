"""Runs every command of docs/commands.md as it stands there, one after the other, on the embedded broker."""

import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.cli.command import ExitCode
from tests.cli.conftest import Run
from tests.cli.peers import librdkafka, produce
from tests.examples.process import ExampleProcess
from tests.support.workers import eventually


PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
ROOT = PAGE.parents[1]
HANDLERS = """
from tests.cli.peers import Shards
def handle(message):
    print("handled", message.value().decode(), flush=True)
def parse(message):
    raise ValueError("not JSON")
"""

pytestmark = pytest.mark.timeout(300)


def commands() -> list[str]:
    """Lists the command lines of the page's blocks."""
    blocks = re.findall(
        r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    whole = "\n".join(blocks).replace("\\\n", " ")
    return [line for line in whole.splitlines() if line.startswith("groupsdk ")]


def goes_on(words: list[str]) -> bool:
    """Tells whether a command goes on until it is stopped."""
    return words[0] in ("run", "watch") or "-f" in words


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddedBroker]:
    """A cluster, files and groups as the page has them, and the current directory beside them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "handlers.py").write_text(HANDLERS)
    (tmp_path / "worker.py").write_text("from tests.cli.peers import Shards as Worker\n")
    example = re.search(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    (tmp_path / "group.json").write_text(example[1])
    with EmbeddedBroker(data_dir=tmp_path / "data") as broker:
        servers = broker.bootstrap_servers
        (tmp_path / "client.properties").write_text(f"bootstrap.servers={servers}\n")
        (tmp_path / "consumer.properties").write_text(
            f"bootstrap.servers={servers}\nauto.offset.reset=earliest\n"
        )
        broker.create_topic("orders", 2)
        produce(servers, "orders", {0: 5, 1: 5})
        with librdkafka(servers, "billing", "orders") as consumer:
            offsets = [TopicPartition("orders", each, 5) for each in (0, 1)]
            consumer.commit(offsets=offsets, asynchronous=False)
        yield broker


def run_for_a_while(words: list[str]) -> None:
    """Runs a command that goes on until it has written something, and stops it."""
    command = ("-m", "groupsdk", *words, "--log-level", "info")
    with ExampleProcess(*command, cwd=Path.cwd()) as process:
        process.wait_for("")
        assert process.end(signal.SIGTERM) in (ExitCode.OK, -signal.SIGTERM), process.lines


def test_every_command_of_the_page_works(place: EmbeddedBroker, tmp_path: Path, run: Run) -> None:
    lines = commands()
    assert len(lines) > 20
    with librdkafka(place.bootstrap_servers, "shop", "orders") as consumer:
        for line in lines:
            # one of the commands removes it, and it joins again
            eventually(lambda: [consumer.poll(0.05)] and place.groups["shop"].members)
            line = line.replace("localhost:9092", place.bootstrap_servers)
            line = line.replace("127.0.0.1:8080", "127.0.0.1:0")
            words = shlex.split(line.replace("/var/lib/kafka/data", str(tmp_path / "data")))[1:]
            if "--rebalances" in words:
                # it writes when one has ended, which nothing causes here
                words += ["--count", "1"]
                run(*words)
            elif goes_on(words):
                run_for_a_while(words)
            else:
                run(*words)


def test_a_handler_is_called_and_its_records_committed(
    place: EmbeddedBroker, tmp_path: Path, run: Run
) -> None:
    servers = ("--bootstrap-servers", place.bootstrap_servers)
    command = ("run", "handlers:handle", "--group", "handled", "--topic", "orders")
    program = ("-m", "groupsdk", *command, "--config", "consumer.properties")
    with ExampleProcess(*program, cwd=Path.cwd()) as process:
        for _ in range(10):
            process.wait_for("^handled ")
        assert process.end(signal.SIGTERM) == ExitCode.OK
    (lag,) = eventually(lambda: run("groups", "lag", "handled", "--json", *servers).json)
    assert lag["total"] == 0
    assert [each["committed"] for each in lag["partitions"]] == [5, 5]
