"""Tests the command line as a whole: help, suggestions, exit codes, errors without tracebacks, completion."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from pytest_mock import MockerFixture

from groupsdk.cli.command import Command, ExitCode
from groupsdk.cli.main import main
from groupsdk.errors import ConfigError, GroupSdkError
from groupsdk.version import __version__
from tests.cli.conftest import Run, command_of, commands
from tests.support.cases import each_case


def test_help_lists_every_command(run: Run) -> None:
    shown = run("--help").out
    for words in commands():
        assert words[0] in shown


def test_every_command_has_help_with_examples_that_name_it(run: Run) -> None:
    for words in commands():
        command = command_of(words)
        assert isinstance(command, Command), words
        assert command.examples, f"{words} has no example"
        shown = run(*words, "--help").out
        for line, sentence in command.examples:
            assert f"groupsdk {' '.join(words)}" in line
            assert line in shown
            assert f"# {sentence}" in shown


def test_every_option_of_an_example_is_one() -> None:
    for words in commands():
        command = command_of(words)
        assert isinstance(command, Command)
        for line, _ in command.examples:
            known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
            for word in line.split():
                if word.startswith("-") and not word.lstrip("-").isdecimal():
                    assert word in known, f"{line}: {word}"


def test_every_option_says_what_it_does() -> None:
    for words in commands():
        for each in command_of(words).params:
            if isinstance(each, click.Option) and not each.hidden:
                assert each.help, f"{words}: {each.opts}"
                assert each.help.endswith("."), f"{words}: {each.opts}: {each.help}"


def test_commands_that_ask_a_cluster_take_the_same_options() -> None:
    wanted = {"--bootstrap-servers", "--config", "--set", "--json", "--sasl-mechanism"}
    for words in commands():
        options = {name for each in command_of(words).params for name in each.opts}
        if "--security-protocol" in options:
            # what is run goes on, and has nothing to write
            assert wanted - ({"--json"} if words == ("run",) else set()) <= options, words


def test_the_version_is_told(run: Run) -> None:
    assert run("--version").out == f"groupsdk {__version__}\n"


@each_case(
    ("words", "text"),
    [
        (("grups",), "did you mean 'groups'?"),
        (("groups", "lst"), "did you mean 'list'?"),
        (("groups", "list", "--bootstrap-server-s", "x"), "--bootstrap-server"),
        (("groups", "zzz"), "there is list, describe"),
        (("groups", "list"), "give --bootstrap-servers HOST:PORT"),
        (("groups", "list", "--set", "x"), "--set: 'x' is not of the form KEY=VALUE"),
        (("groups", "list", "--bootstrap-servers", "h", "--set", "x=1"), "unknown setting 'x'"),
        (("groups", "list", "--config", "/no/file"), "/no/file cannot be read"),
        (("assign", "--file", "/no/file"), "--file /no/file cannot be read: No such file"),
        (("assign", "--file", sys.executable), "it is not UTF-8 text"),
        (("broker", "--users", "/no/file"), "--users /no/file cannot be read: No such file"),
        (("broker", "--users", sys.executable), "it is not UTF-8 text"),
        (
            ("groups", "reset", "g", "--from-file", "/no", "--bootstrap-servers", "h"),
            "--from-file /no cannot be read: No such file",
        ),
        (
            ("groups", "list", "--timeout", "nan", "--bootstrap-servers", "h"),
            "is not a number of seconds, such as 5",
        ),
        (
            ("groups", "list", "--timeout", "x", "--bootstrap-servers", "h"),
            "is not a number of seconds, such as 5",
        ),
        (
            ("watch", "--interval", "nan", "--bootstrap-servers", "h"),
            "is not a number of seconds, such as 5",
        ),
        (
            ("groups", "list", "--state", "Stabel", "--bootstrap-servers", "h"),
            "'Stabel' is not one of 'assigning', 'completingrebalance', 'dead'",
        ),
        (("broker", "--listen", "0.0.0.0:0"), "open to the network"),
        (
            ("broker", "--listen", "foo"),
            "--listen must be HOST:PORT with a port of 0 to 65535, such as 127.0.0.1:9092, not 'foo'",
        ),
        (("broker", "--listen", "SSL://h:9092"), "not 'SSL://h:9092'"),
        (("broker", "--advertise", "h:70000"), "--advertise must be HOST:PORT"),
        (
            ("groups", "list", "--bootstrap-servers", "h", "--set", "fetch.mni.bytes=1"),
            "did you mean fetch.min.bytes, a setting of groupsdk.consumer.GroupConsumer?",
        ),
        (
            ("run", "tests.cli.test_main:comands", "--group", "g", "--bootstrap-servers", "h"),
            "tests.cli.test_main has no 'comands'; did you mean commands?",
        ),
        (("completion", "cmd"), "'cmd' is not one of"),
        (("watch", "--count", "5x", "--bootstrap-servers", "h"), "'5x' is not a valid integer."),
    ],
)
def test_wrong_use_is_told_without_a_traceback(
    words: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(list(words)) == ExitCode.WRONG_USE
    told = capsys.readouterr().err
    assert text in " ".join(told.split())
    assert told.startswith("groupsdk: ")
    assert "Traceback" not in told


@each_case(
    ("error", "code"),
    [
        (GroupSdkError("no"), ExitCode.FAILED),
        (OSError("no"), ExitCode.FAILED),
        (ConfigError("no"), ExitCode.WRONG_USE),
        (ModuleNotFoundError("no", name="rich"), ExitCode.WRONG_USE),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
    ],
)
def test_errors_become_exit_codes(
    error: BaseException, code: ExitCode, mocker: MockerFixture
) -> None:
    mocker.patch("groupsdk.cli.broker.broker_of", side_effect=error)
    assert main(["broker"]) == code


def test_without_rich_the_extra_is_named_and_json_works(run: Run, mocker: MockerFixture) -> None:
    mocker.patch.dict(sys.modules, {"rich": None, "rich.box": None})
    mocker.patch("groupsdk.cli.connection.Connection.run", return_value=[])
    told = run("groups", "list", "--bootstrap-servers", "h", code=2).err
    assert "pip install 'groupsdk[cli]'" in told
    assert run("groups", "list", "--bootstrap-servers", "h", "--json").json == []


def test_a_reader_that_has_enough_ends_it_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = [sys.executable, "-m", "groupsdk", "groups", "--help"]
    with os.fdopen(writing, "w") as closed:
        done = subprocess.run(words, stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_completion_script_completes(run: Run) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_GROUPSDK_COMPLETE" in run("completion", shell).out
    environment = {
        **os.environ,
        "_GROUPSDK_COMPLETE": "bash_complete",
        "COMP_WORDS": "groupsdk groups de",
        "COMP_CWORD": "2",
    }
    done = subprocess.run(
        [sys.executable, "-m", "groupsdk"],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["plain,describe", "plain,delete"]
