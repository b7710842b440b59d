"""The command line: what it takes, and what it says where that is wrong."""

import io
import subprocess
import sys
from pathlib import Path

import click
import pytest
from pytest_mock import MockerFixture
from typing_extensions import override

from groupsdk.cli import history_following
from groupsdk.cli.history_options import HistoryOptions, kafka_settings
from groupsdk.cli.main import main
from groupsdk.errors import GroupSdkError
from tests.history.sample import SEGMENTS
from tests.support.cases import each_case


def options_of(mocker: MockerFixture, *words: str) -> HistoryOptions:
    """Reads a command line; returns what the command would run with."""
    mocker.patch("groupsdk.cli.history._needs_spark")
    runs = [
        mocker.patch(f"groupsdk.cli.{each}")
        for each in (
            *("history._run", "history._report"),
            *("history_following.archive", "history_following.follow"),
        )
    ]
    assert main(["history", *words]) == 0
    (called,) = (each for each in runs if each.called)
    found: HistoryOptions = called.call_args.args[0]
    return found


def test_each_command_has_its_options(mocker: MockerFixture) -> None:
    run = options_of(
        mocker, "run", "--segments", "/data", "--out", "o", "--group", "a", "--group", "b"
    )
    assert (run.segments, run.out, run.group) == ("/data", "o", ("a", "b"))
    assert run.assignors == "range,roundrobin,sticky,cooperative-sticky"
    report = options_of(mocker, "report", "--out", "o")
    assert (report.report, report.title) == (None, "What happened to the groups")
    # as it was spelled before
    words = ("--bootstrap-server", "h:9092", "--out", "o", "--once")
    archive = options_of(mocker, "archive", *words)
    assert (archive.bootstrap_servers, archive.once, archive.every) == ("h:9092", True, 30)
    follow = options_of(mocker, "follow", "--archive", "a", "--out", "o", "--storm", "7/60")
    assert (follow.archive, follow.storm, follow.every, follow.once) == ("a", "7/60", 30, False)
    live = ("--bootstrap-servers", "h:1", "--out", "o", "--broker-log", "server.log*")
    follow = options_of(mocker, "follow", *live)
    assert (follow.broker_log, follow.log_zone) == ("server.log*", "UTC")


def test_files_go_over_the_servers_of_the_environment(mocker: MockerFixture) -> None:
    mocker.patch.dict("os.environ", {"GROUPSDK_BOOTSTRAP_SERVERS": "h:1"})
    run = options_of(mocker, "run", "--segments", "/data", "--out", "o")
    assert run.bootstrap_servers is None
    assert options_of(mocker, "run", "--out", "o").bootstrap_servers == "h:1"


def test_a_live_cluster_takes_the_settings_of_javas_clients(
    mocker: MockerFixture, tmp_path: Path
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "bootstrap.servers=h:1\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="u" password="p";\n'
    )
    words = ("--command-config", str(path), "--out", "o", "--set", "request.timeout.ms=5000")
    assert kafka_settings(options_of(mocker, "archive", *words)) == {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "p",
        "request.timeout.ms": "5000",
    }


@each_case(
    "words",
    [
        ("run", "--out", "o"),
        ("run", "--out", "o", "--segments", "a", "--archive", "b"),
        ("run", "--segments", "a"),
        ("archive", "--out", "o"),
        ("follow", "--out", "o"),
        ("follow", "--out", "o", "--archive", "a", "--bootstrap-servers", "h:1"),
        ("follow", "--out", "o", "--archive", "a", "--engine", "local"),
        ("follow", "--out", "o", "--archive", "a", "--every", "0"),
        ("alert", "--out", "o"),
        ("alert", "--out", "o", "--archive", "a"),
        ("run", "--segments", "a", "--out", "o", "--engine", "local", "--format", "iceberg"),
        ("fly",),
    ],
)
def test_history_command_without_its_arguments_prints_the_usage(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", *words]) == 2
    assert "Usage:" in capsys.readouterr().err


def test_help_comes_without_spark() -> None:
    code = (
        "import sys; from groupsdk.cli.main import main\n"
        "main(['history', 'run', '--help'])\n"
        "assert 'pyspark' not in sys.modules and 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--broker-log" in done.stdout


def test_without_spark_the_error_names_the_engine_that_needs_none(
    mocker: MockerFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    mocker.patch.dict(sys.modules, {"pyspark": None})
    live = ("--bootstrap-servers", "localhost:9092", "--out", "o")
    for words in (("run", *live, "--engine", "spark"), ("follow", *live)):
        assert main(["history", *words]) == 2
        error = capsys.readouterr().err
        assert "groupsdk[spark]" in error
        assert "--engine local" in error
    # where there is no other way it is not named
    assert main(["history", "follow", "--archive", "a", "--out", "o"]) == 2
    error = capsys.readouterr().err
    assert "groupsdk[spark]" in error
    assert "--engine local" not in error


def test_an_error_is_one_line(mocker: MockerFixture, capsys: pytest.CaptureFixture[str]) -> None:
    mocker.patch("groupsdk.cli.history._needs_spark")
    mocker.patch("groupsdk.cli.history._run", side_effect=GroupSdkError("no segments"))
    assert main(["history", "run", "--segments", "/no", "--out", "o"]) == 1
    assert capsys.readouterr().err == "groupsdk: no segments\n"


def test_without_spark_the_extra_is_named(
    mocker: MockerFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    mocker.patch.dict(sys.modules, {"pyspark": None})
    assert main(["history", "report", "--out", "s3a://bucket/o"]) == 2
    assert "pip install 'groupsdk[spark]'" in capsys.readouterr().err


def test_a_small_log_is_explained_without_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mocker: MockerFixture
) -> None:
    mocker.patch.dict(sys.modules, {"pyspark": None})
    names = tmp_path / "topics.jsonl"
    names.write_text(
        '{"topic_id": "CaotL4xPQ2OKVZ8FhT8vWQ", "topic": "events"}\n', encoding="utf-8"
    )
    out = tmp_path / "out"
    words = ("--segments", str(SEGMENTS), "--topics", str(names), "--out", str(out), "--quiet")
    assert main(["history", "run", "--engine", "local", *words]) == 0
    assert capsys.readouterr().out == f"{out}/report.html\n"
    assert "Group workers" in (out / "report.html").read_text(encoding="utf-8")
    by_itself = tmp_path / "by-itself"
    words_again = [
        str(by_itself) if each == str(out) else each for each in words if each != "--quiet"
    ]
    assert main(["history", "run", *words_again]) == 0
    assert "PySpark is not installed: running as --engine local" in capsys.readouterr().err
    assert (by_itself / "report.html").exists()
    assert main(["history", "report", "--out", str(out), "--quiet", "--title", "again"]) == 0
    assert "<h1>again</h1>" in (out / "report.html").read_text(encoding="utf-8")
    names.write_text("no JSON\n", encoding="utf-8")
    assert main(["history", "run", "--engine", "local", *words]) == 2
    assert "topic_id" in capsys.readouterr().err
    archive = ("--archive", "a", "--out", str(out))
    assert main(["history", "run", "--engine", "local", *archive]) == 2
    assert "no archive" in capsys.readouterr().err
    assert main(["history", "run", "--engine", "local", *words, "--format", "iceberg"]) == 2
    assert "--engine spark" in capsys.readouterr().err


def test_files_that_are_no_segments_are_said_to_be_none(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data" / "__consumer_offsets-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").write_bytes(b"PK\3\4 and what else an archive has" * 30)
    words = ("--engine", "local", "--quiet", "--segments", str(tmp_path / "data"))
    assert main(["history", "run", *words, "--out", str(tmp_path / "out")]) == 0
    out, error = capfd.readouterr()
    assert "no record could be read: bytes 0 to" in error
    assert Path(out.strip()).is_file()


def test_alerts_end_where_nobody_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        @override
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    # not an OSError, which would be an alert that waits for the next look
    with pytest.raises(click.exceptions.Exit):
        history_following._write_line("{}\n")


@pytest.mark.parametrize(
    "command",
    [
        ("follow", "--bootstrap-servers", "localhost:1", "--engine", "spark"),
        ("alert", "--bootstrap-servers", "localhost:1", "--engine", "spark"),
        ("run", "--archive", "archive"),
    ],
)
def test_what_keeps_tables_up_to_date_says_that_spark_connect_cannot(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # before a server is asked: there is none
    options = ("--master", "sc://localhost:1", "--out", str(tmp_path / "out"))
    assert main(["history", *command, *options]) != 0
    error = capsys.readouterr().err
    assert "sc://localhost:1 is a server of Spark Connect" in error
    assert "--engine local" in error
