"""Tests tables, JSON and progress."""

import json
from dataclasses import dataclass
from enum import Enum

import pytest

from groupsdk.assignment import TopicPartition
from groupsdk.cli.output import cell, plain, progress, write_json_line, write_table
from groupsdk.cli.process import load, set_up_logging


@dataclass(frozen=True, slots=True)
class _Value:
    part: TopicPartition
    data: bytes = b"\x01"


class _Color(Enum):
    RED = "red"


def test_values_become_json(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"a": _Value(TopicPartition("t", 1)), 2: [_Color.RED, frozenset({3})]}
    assert plain(value) == {
        "a": {"part": {"topic": "t", "partition": 1}, "data": "01"},
        "2": ["red", [3]],
    }
    write_json_line({"a": "é"})
    assert json.loads(capsys.readouterr().out) == {"a": "é"}


def test_a_table_has_no_control_characters_and_is_never_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_table(("NAME", "COUNT"), [("[red]\x1b[2J" + "x" * 300, 7), (None, None)])
    shown = capsys.readouterr().out
    assert "[red]\\x1b[2J" + "x" * 300 in shown
    assert "\x1b" not in shown
    assert shown.splitlines()[-1].split() == ["-", "-"]
    assert cell("a\x9bb\n") == "a\\x9bb\\x0a"


def test_progress_is_for_terminals(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("info")
    with progress("reading", after_s=0) as say:
        say("half")
    assert capsys.readouterr().err == ""
    assert load("tests.cli.test_output:_Color.RED") is _Color.RED
