"""The command line: what it takes, and what it says where that is wrong."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from groupsdk.errors import ConfigError
from groupsdk.history.command import add_arguments, is_brief, main, read_properties, storm_of


def parsed(*arguments: str) -> argparse.Namespace:
    """Parse arguments."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(arguments)


def test_each_command_has_its_arguments() -> None:
    run = parsed("run", "--segments", "/data", "--out", "o", "--group", "a", "--group", "b")
    assert (run.history_command, run.segments, run.out, run.group) == (
        "run",
        "/data",
        "o",
        ["a", "b"],
    )
    assert run.assignors == "range,roundrobin,sticky,cooperative-sticky"
    report = parsed("report", "--out", "o")
    assert (report.report, report.title) == (None, "What happened to the groups")
    archive = parsed("archive", "--bootstrap-server", "h:9092", "--out", "o", "--once")
    assert (archive.once, archive.every) == (True, 30)


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--out", "o"),
        ("run", "--out", "o", "--segments", "a", "--archive", "b"),
        ("run", "--segments", "a"),
        ("archive", "--out", "o"),
        ("fly",),
        (),
    ],
)
def test_what_is_missing_is_said(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as error:
        parsed(*arguments)
    assert error.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_a_small_log_makes_a_brief_session(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from groupsdk.history.session import BRIEF_BYTES

    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    with (folder / f"{0:020}.log").open("wb") as file:
        file.truncate(BRIEF_BYTES)
    args = parsed("run", "--segments", str(tmp_path), "--out", "o")
    assert is_brief(args)
    (folder / f"{5:020}.log").write_bytes(b"x")
    assert not is_brief(args)
    assert not is_brief(parsed("run", "--archive", str(tmp_path), "--out", "o"))


def test_help_comes_without_spark() -> None:
    code = (
        "import sys; from groupsdk.history.command import main\n"
        "try: main(['run', '--help'])\n"
        "except SystemExit: pass\n"
        "assert 'pyspark' not in sys.modules and 'numpy' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--broker-log" in done.stdout


def test_a_storm_is_a_number_and_seconds() -> None:
    assert storm_of("7/60") == (7, 60)
    for text in ("", "5", "5/", "/5", "1/60", "5/0", "5/x", "-5/60"):
        with pytest.raises(ConfigError, match="N/SECONDS"):
            storm_of(text)


def test_client_properties_are_read_and_never_shown(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# TLS\nsecurity.protocol = SASL_SSL\n\nsasl.password=a=b\n", encoding="utf-8")
    assert read_properties(str(path)) == {"security.protocol": "SASL_SSL", "sasl.password": "a=b"}
    path.write_text("sasl.password: secret\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="line 1: no key=value") as error:
        read_properties(str(path))
    assert "secret" not in str(error.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_properties(str(tmp_path / "missing"))


def test_an_error_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(args: argparse.Namespace) -> int:
        raise ConfigError("no segments")

    monkeypatch.setattr("groupsdk.history.command._run", fail)
    assert main(["run", "--segments", "/no", "--out", "o"]) == 1
    assert capsys.readouterr().err == "groupsdk history: no segments\n"
