"""Holds the command: options and their environment, programs that are not there, signals and exit codes."""

import signal
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.cli.command import ExitCode
from groupsdk.cli.main import main
from groupsdk.cli.worker import WorkerOptions, gather_worker_settings, load_app
from groupsdk.errors import ConfigError
from tests.examples.process import ExampleProcess
from tests.support.cases import each_case


OK, WRONG_USE = ExitCode.OK, ExitCode.WRONG_USE
ROOT = Path(__file__).resolve().parents[2]
APP = """
import time
from groupsdk.connect import Task, Worker
app = Worker()
@app.tasks
def plan():
    return [Task("only")]
@app.task
def run(task, context):
    print("runs", context.generation, flush=True)
    context.stop.wait()
    time.sleep({slow})
    print("ended", flush=True)
"""


def options_of(*words: str, mocker: MockerFixture, **environment: str) -> WorkerOptions:
    """Reads a command line; returns what the command would run with."""
    ran = mocker.patch("groupsdk.cli.worker.run_worker", return_value=OK)
    for name, value in environment.items():
        mocker.patch.dict("os.environ", {name: value})
    assert main(["worker", "m:app", *words]) == OK
    found: WorkerOptions = ran.call_args.args[1]
    return found


def test_options_fall_back_to_the_environment(mocker: MockerFixture) -> None:
    environment = {"GROUPSDK_GROUP": "g", "GROUPSDK_BOOTSTRAP_SERVERS": "b:1"}
    given = options_of(mocker=mocker, **environment, GROUPSDK_REST_PASSWORD="p")
    assert (given.group, given.bootstrap_servers, given.rest_password) == ("g", "b:1", "p")
    assert options_of("--group", "other", mocker=mocker, **environment).group == "other"


@each_case(
    ("place", "text"),
    [
        ("nothing", "is not module:name"),
        ("no.such.module:app", "there is no module"),
        ("tests.connect.ledger:app", "there is no module"),
        ("tests.connect.workers:nothing", "has no 'nothing'"),
        ("tests.connect.workers:ALL", "is a tuple, not a"),
    ],
)
def test_a_program_that_is_not_there_is_said(place: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        load_app(place)


def test_options_go_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "settings"
    path.write_text("# ours\n\nsession.timeout.ms = 6000\nsasl.password=a=b\ngroup.id: g\n")
    options = WorkerOptions(config=str(path), settings=["session.timeout.ms=1"], group="other")
    assert gather_worker_settings(options) == {
        "session.timeout.ms": "1",
        "sasl.password": "a=b",
        "group.id": "other",
    }
    with pytest.raises(ConfigError, match="cannot be read"):
        gather_worker_settings(WorkerOptions(config=str(tmp_path / "none")))


@each_case(
    ("arguments", "text"),
    [
        (["tests.connect.workers:nothing"], "has no 'nothing'"),
        (["m:app", "--log-level", "loud"], "'loud' is not one of"),
        (["m:app", "--shutdown-timeout", "soon"], "'soon' is not a number of seconds"),
        (["m:app", "--rest", "0.0.0.0:8083"], "can be reached by others"),
        ([], "MODULE:APP"),
    ],
)
def test_wrong_use_is_said_and_ends_with_2(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["worker", *arguments]) == WRONG_USE
    assert text in capsys.readouterr().err


def running(tmp_path: Path, *options: str, slow: float = 0) -> ExampleProcess:
    """Run the command with a program of one task."""
    (tmp_path / "program.py").write_text(APP.format(slow=slow))
    return ExampleProcess("-m", "groupsdk.connect", "program:app", *options, cwd=tmp_path)


def test_the_first_signal_ends_in_good_order(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        options = ["--bootstrap-servers", broker.bootstrap_servers, "--group", "g"]
        with running(tmp_path, *options, "--set", "offset.storage.partitions=1") as process:
            process.wait_for("runs")
            assert process.end(signal.SIGTERM) == OK
            assert "ended" in "\n".join(process.lines)


def test_a_worker_without_a_broker_waits_until_one_answers(tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        options = ["--bootstrap-servers", broker.bootstrap_servers, "--group", "g"]
        broker.stop()
        with running(tmp_path, *options, "--set", "offset.storage.partitions=1") as process:
            process.wait_for("no broker answers, still trying")
            assert process.status() is None
            broker.start()
            process.wait_for("runs")
            assert process.end(signal.SIGTERM) == OK


def test_a_signal_ends_a_worker_that_waits_for_a_broker(tmp_path: Path) -> None:
    options = ["--bootstrap-servers", "127.0.0.1:1", "--group", "g"]
    with running(tmp_path, *options) as process:
        process.wait_for("no broker answers, still trying")
        assert process.end(signal.SIGTERM) == OK


def test_the_second_signal_ends_at_once(tmp_path: Path) -> None:
    with running(tmp_path, "--standalone", str(tmp_path / "s"), slow=30) as process:
        process.wait_for("runs")
        process.send(signal.SIGTERM)
        process.wait_for("shutting down")
        assert process.end(signal.SIGTERM) == 128 + signal.SIGTERM
        assert "ended" not in "\n".join(process.lines)


def test_a_task_that_does_not_end_keeps_nobody_from_leaving(tmp_path: Path) -> None:
    options = ["--standalone", str(tmp_path / "s"), "--shutdown-timeout", "0.2"]
    with running(tmp_path, *options, slow=30) as process:
        process.wait_for("runs")
        assert process.end(signal.SIGINT) == 3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--group", "g"], "bootstrap.servers is missing: give --bootstrap-servers HOST:PORT, or"),
        (["--bootstrap-servers", "x"], "group.id is missing: give --group NAME"),
        (["--standalone", "s", "--set", "task.restart.mux=0"], "did you mean task.restart.max"),
    ],
)
def test_worker_command_without_a_setting_says_how_to_give_it(
    tmp_path: Path, options: list[str], text: str
) -> None:
    with running(tmp_path, *options) as process:
        assert process.end() == WRONG_USE
        assert text in "\n".join(process.lines)


def test_without_its_packages_http_is_refused_before_anything_starts(
    mocker: MockerFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    mocker.patch("importlib.util.find_spec", return_value=None)
    assert main(["worker", "m:app", "--rest", "127.0.0.1:0"]) == WRONG_USE
    assert "pip install 'groupsdk[rest]'" in capsys.readouterr().err


def test_a_wrong_setting_ends_with_2(tmp_path: Path) -> None:
    with running(
        tmp_path, "--bootstrap-servers", "x", "--group", "g", "--set", "grup.id=x"
    ) as process:
        assert process.end() == WRONG_USE
        assert "did you mean group.id" in "\n".join(process.lines)
