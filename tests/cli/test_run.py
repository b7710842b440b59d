"""Tests `groupsdk run`: what can be run, signals, starting again when a file changes."""

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from typing_extensions import override

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.cli.command import ExitCode
from groupsdk.cli.connection import Connection
from groupsdk.cli.run import (
    RunOptions,
    process_environment,
    run_again,
    run_place,
    run_processes,
    runnable,
    without_options,
)
from groupsdk.election.leader_election import LeaderElection
from groupsdk.errors import ConfigError
from groupsdk.testing import LocalKafka
from tests.broker.clients import committed_offsets
from tests.cli.peers import Shards, produce
from tests.examples.process import ExampleProcess
from tests.support.cases import each_case
from tests.support.plain_workers import AsyncPlainWorker
from tests.support.topics import create_topic
from tests.support.workers import eventually


pytestmark = pytest.mark.timeout(300)
STARTED = threading.Event()
STOP = threading.Event()
SEEN: list[bytes] = []


class Told(Shards):
    """Tells when it has its assignment."""

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        STOP.set()


class Broken(Shards):
    """Raises in a callback."""

    @override
    def metadata(self) -> Any:
        raise ValueError("mine")


def handle(message: Any) -> None:
    """Reads records until the last."""
    SEEN.append(message.value())
    if message.value() == b"4":
        STOP.set()


def fail(message: Any) -> None:
    """Cannot read a record."""
    raise ValueError("cannot")


def takes_two(message: Any, other: Any) -> None:
    """Cannot be called with a record alone."""


ATTEMPTS: list[bytes] = []


def poison(message: Any) -> None:
    """Cannot process the record "2"."""
    ATTEMPTS.append(message.value())
    if message.value() == b"2":
        raise ValueError("poison")
    handle(message)


async def handle_async(message: Any) -> None:
    """Reads records until the last, on an event loop."""
    await asyncio.sleep(0)
    handle(message)


async def fail_async(message: Any) -> None:
    """Cannot read a record."""
    await asyncio.sleep(0)
    fail(message)


HUNG = threading.Event()


def hang(message: Any) -> None:
    """Does not end by itself."""
    print("the handler has begun", file=sys.stderr, flush=True)
    HUNG.wait()


async def hang_async(message: Any) -> None:
    """Does not end by itself."""
    print("the handler has begun", file=sys.stderr, flush=True)
    await asyncio.to_thread(HUNG.wait)


class ToldAsync(AsyncPlainWorker):
    """For asyncio; tells when it has its assignment."""

    @override
    async def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        STOP.set()


class BrokenAsync(AsyncPlainWorker):
    """Raises in a callback."""

    @override
    def metadata(self) -> Any:
        raise ValueError("mine")


def connection(broker: EmbeddedBroker | LocalKafka) -> Connection:
    others = {"auto.offset.reset": "earliest"}
    return Connection({"bootstrap.servers": broker.bootstrap_servers}, 10, others)


@pytest.fixture(params=["broker", pytest.param("kafka", marks=pytest.mark.kafka)])
def either(request: pytest.FixtureRequest) -> EmbeddedBroker | LocalKafka:
    """The embedded broker, and Kafka."""
    found: EmbeddedBroker | LocalKafka = request.getfixturevalue(request.param)
    return found


@each_case("name", ["Told", "ToldAsync"])
def test_a_coordinator_is_run_until_it_is_told_to_end(
    name: str, broker: EmbeddedBroker, group_id: str
) -> None:
    STOP.clear()
    options = RunOptions(group=f"{group_id}-{name}", health="127.0.0.1:0")
    assert run_place(f"{__name__}:{name}", connection(broker), options, STOP) is ExitCode.OK
    assert not broker.groups[f"{group_id}-{name}"].members


@each_case("name", ["Broken", "BrokenAsync"])
def test_a_callback_that_raises_ends_it(
    name: str, broker: EmbeddedBroker, group_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    options = RunOptions(group=group_id)
    code = run_place(f"{__name__}:{name}", connection(broker), options, threading.Event())
    assert code is ExitCode.FAILED
    assert "ValueError: mine" in caplog.text


@each_case("kind", ["", "_async"])
def test_a_function_is_called_with_each_record(
    kind: str, broker: EmbeddedBroker, group_id: str
) -> None:
    STOP.clear()
    SEEN.clear()
    topic = f"{group_id}{kind}"
    broker.create_topic(topic, 1)
    produce(broker.bootstrap_servers, topic, {0: 5})
    options = RunOptions(group=topic, topics=[topic])
    assert run_place(f"{__name__}:handle{kind}", connection(broker), options, STOP) is ExitCode.OK
    assert SEEN == [b"0", b"1", b"2", b"3", b"4"]
    options = RunOptions(group=f"{topic}-2", topics=[topic])
    code = run_place(f"{__name__}:fail{kind}", connection(broker), options, threading.Event())
    assert code is ExitCode.FAILED


def test_a_record_that_fails_is_tried_again_and_then_a_dead_letter(
    either: EmbeddedBroker | LocalKafka, group_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    STOP.clear()
    SEEN.clear()
    ATTEMPTS.clear()
    create_topic(either.bootstrap_servers, group_id, 1)
    produce(either.bootstrap_servers, group_id, {0: 5})
    options = RunOptions(
        group=group_id,
        topics=[group_id],
        on_error="dead-letter",
        retries=1,
        dead_letter_topic=f"{group_id}-dead",
    )
    assert run_place(f"{__name__}:poison", connection(either), options, STOP) is ExitCode.OK
    assert SEEN == [b"0", b"1", b"3", b"4"]
    assert ATTEMPTS == [b"0", b"1", b"2", b"2", b"3", b"4"]
    assert (
        f"handling topic={group_id} partition=0 offset=2 key=None failed at attempt 2, "
        in caplog.text
    )
    consumer = Consumer(
        {
            "bootstrap.servers": either.bootstrap_servers,
            "group.id": f"{group_id}-reader",
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.subscribe([f"{group_id}-dead"])
        (letter,) = consumer.consume(1, 60)
        assert letter.value() == b"2"
        assert dict(letter.headers() or [])["__connect.errors.offset"] == b"2"
    finally:
        consumer.close()


def test_the_record_that_ends_the_run_is_named(
    broker: EmbeddedBroker, group_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker.create_topic(group_id, 1)
    produce(broker.bootstrap_servers, group_id, {0: 5})
    options = RunOptions(group=group_id, topics=[group_id])
    code = run_place(f"{__name__}:poison", connection(broker), options, threading.Event())
    assert code is ExitCode.FAILED
    assert f"the record topic={group_id} partition=0 offset=2 key=None" in caplog.text


def test_each_process_gets_its_own_instance_id_and_port() -> None:
    assert process_environment(2, "jobs", "127.0.0.1:8080") == {
        "GROUPSDK_PROCESSES": "1",
        "GROUPSDK_INSTANCE_ID": "jobs-2",
        "GROUPSDK_HEALTH": "127.0.0.1:8082",
    }
    assert process_environment(0, None, None) == {"GROUPSDK_PROCESSES": "1"}
    words = ["run", "m:f", "--processes=3", "--health", "h:1", "--group", "g"]
    assert without_options(words, ("--processes", "--health")) == ["run", "m:f", "--group", "g"]


def test_a_killed_process_is_started_again_and_one_that_ends_ends_all(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        f"here = pathlib.Path({str(tmp_path)!r})\n"
        "name = os.environ['NAME']\n"
        "(here / f'{name}-{os.getpid()}').touch()\n"
        "while not (name == 'b' and (here / 'end').exists()): time.sleep(0.05)\n"
        "sys.exit(2)\n"
    )
    stop = threading.Event()
    found: list[ExitCode] = []
    environments = [{"NAME": "a"}, {"NAME": "b"}]

    def run() -> None:
        found.append(run_processes([sys.executable, "-c", script], environments, stop, 60))

    def started(name: str) -> list[Path]:
        return list(tmp_path.glob(f"{name}-*"))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        eventually(lambda: started("a") and started("b"))
        os.kill(int(started("a")[0].name.partition("-")[2]), signal.SIGKILL)
        eventually(lambda: len(started("a")) == 2)
        (tmp_path / "end").touch()
        thread.join(60)
    finally:
        stop.set()
        thread.join(60)
    assert found == [ExitCode(2)]


def test_several_processes_are_static_members_of_one_group(
    broker: EmbeddedBroker, group_id: str
) -> None:
    words = ["run", "tests.cli.peers:Shards", "--group", group_id, "--processes", "2"]
    servers = ("--bootstrap-servers", broker.bootstrap_servers)
    with ExampleProcess("-m", "groupsdk", *words, "--instance-id", "shards", *servers) as process:

        def instances() -> set[str]:
            members = broker.groups[group_id].members if group_id in broker.groups else ()
            return {member_id[: len("shards-0")] for member_id in members}

        eventually(lambda: instances() == {"shards-0", "shards-1"})
        assert process.end(signal.SIGTERM) == ExitCode.OK


@each_case("name", ["hang", "hang_async"])
def test_a_handler_that_hangs_does_not_keep_the_process(
    name: str, broker: EmbeddedBroker, group_id: str, tmp_path: Path
) -> None:
    topic = f"{group_id}-{name}"
    broker.create_topic(topic, 1)
    produce(broker.bootstrap_servers, topic, {0: 1})
    settings = tmp_path / "reader.properties"
    settings.write_text(
        f"bootstrap.servers={broker.bootstrap_servers}\nauto.offset.reset=earliest\n"
    )
    words = (f"{__name__}:{name}", "--group", topic, "--topic", topic, "--shutdown-timeout", "1")
    command = ("-m", "groupsdk", "run", *words, "--config", str(settings))
    with ExampleProcess(*command) as process:
        process.wait_for("the handler has begun")
        assert process.end(signal.SIGTERM) == ExitCode.NOT_IN_ORDER, process.lines
    assert "no graceful shutdown within 1 s" in "\n".join(process.lines)


def test_an_election_is_run(broker: EmbeddedBroker, group_id: str) -> None:
    stop = threading.Event()
    election = LeaderElection(group_id, bootstrap_servers=broker.bootstrap_servers, grace=0)

    @election.on_elected
    def lead(term: Any) -> None:
        stop.set()

    found = runnable(election, "m:election", connection(broker), RunOptions())
    found.run(stop)
    assert found.close(60)
    assert found.families() == []


@each_case(
    ("name", "options", "text"),
    [
        ("STARTED", RunOptions(group="g"), "must be an AbstractCoordinator"),
        ("handle", RunOptions(group="g"), "--topic NAME"),
        ("handle", RunOptions(topics=["t"]), "give --group NAME"),
        ("Told", RunOptions(), "give --group NAME"),
        ("nothing", RunOptions(), "has no 'nothing'"),
        ("takes_two", RunOptions(group="g", topics=["t"]), r"takes_two\(message.*one record"),
        (
            "handle",
            RunOptions(group="g", topics=["t"], on_error="dead-letter"),
            "give --dead-letter-topic NAME",
        ),
        (
            "handle",
            RunOptions(group="g", topics=["t"], on_error="dead-letter", dead_letter_topic="t"),
            "t is read by the handler itself",
        ),
    ],
)
def test_place_that_cannot_be_run_is_refused_with_the_reason(
    name: str, options: RunOptions, text: str, broker: EmbeddedBroker
) -> None:
    with pytest.raises(ConfigError, match=text):
        run_place(f"{__name__}:{name}", connection(broker), options, threading.Event())


def test_run_command_restarts_when_a_file_changes(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("version = 1\n")
    said = tmp_path / "said"
    script = (
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        f"with open({str(said)!r}, 'a') as out: out.write(pathlib.Path('program.py').read_text())\n"
        "while True: time.sleep(0.05)\n"
    )
    stop = threading.Event()
    found: list[ExitCode] = []
    command = [sys.executable, "-c", f"import os; os.chdir({str(tmp_path)!r})\n{script}"]
    thread = threading.Thread(target=lambda: found.append(run_again(command, tmp_path, stop)))
    thread.start()
    try:
        eventually(lambda: said.exists() and said.read_text() == "version = 1\n")
        program.write_text("version = 22\n")
        eventually(lambda: said.read_text() == "version = 1\nversion = 22\n")
    finally:
        stop.set()
        thread.join(60)
    assert found == [ExitCode.OK]


def test_a_signal_ends_it_in_good_order(broker: EmbeddedBroker, group_id: str) -> None:
    words = ["run", "tests.cli.peers:Shards", "--group", group_id, "--reload"]
    servers = ("--bootstrap-servers", broker.bootstrap_servers)
    with ExampleProcess("-m", "groupsdk", *words, *servers) as process:
        eventually(lambda: group_id in broker.groups and broker.groups[group_id].members)
        assert process.end(signal.SIGTERM) == ExitCode.OK
        eventually(lambda: not broker.groups[group_id].members)


HANDLER = """
import os
from pathlib import Path

from confluent_kafka import Message

HERE = Path(os.environ["HERE"])


def handle(message: Message) -> None:
    (HERE / "begun").touch()
    while not (HERE / "go").exists():
        os.sched_yield()
    with (HERE / "done").open("a") as file:
        file.write(f"{message.offset()} ")
"""


def test_record_in_hand_is_finished_and_committed_before_a_signal_ends_it(
    broker: EmbeddedBroker, group_id: str, tmp_path: Path
) -> None:
    (tmp_path / "drained.py").write_text(HANDLER)
    broker.create_topic(group_id, 1)
    produce(broker.bootstrap_servers, group_id, {0: 50})
    words = ["run", "drained:handle", "--group", group_id, "--topic", group_id]
    settings = ["--set", "auto.offset.reset=earliest"]
    servers = ("--bootstrap-servers", broker.bootstrap_servers)
    here = {"HERE": str(tmp_path)}
    with ExampleProcess(
        *("-m", "groupsdk", *words, *settings, *servers), cwd=tmp_path, environment=here
    ) as process:
        eventually((tmp_path / "begun").exists)
        process.send(signal.SIGTERM)
        process.wait_for("shutting down")
        (tmp_path / "go").touch()
        assert process.end() == ExitCode.OK
    done = [int(each) for each in (tmp_path / "done").read_text().split()]
    assert done == list(range(len(done)))
    assert not broker.groups[group_id].members
    assert committed_offsets(broker, group_id)[group_id, 0].offset == len(done)
