"""Holds the levels of loggers, under Kafka's names."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupsdk.cli.main import main
from groupsdk.clock import ManualClock
from groupsdk.connect.errors import UnknownConnectorError
from groupsdk.connect.loggers import ROOT, Loggers, level_name


_LEVEL = logging.getLogger().level


@pytest.fixture
def name() -> Iterator[str]:
    """The name of a logger that has two below it."""
    for one in ("ours", "ours.one", "ours.one.two", "ourselves"):
        logging.getLogger(one).setLevel(logging.NOTSET)
    names = [None, *logging.root.manager.loggerDict]
    before = {each: logging.getLogger(each).level for each in names}
    yield "ours"
    for each, level in before.items():
        logging.getLogger(each).setLevel(level)


def test_a_level_is_set_for_all_below(name: str) -> None:
    clock = ManualClock(5)
    loggers = Loggers(clock)
    assert loggers.set(name, "debug") == ["ours", "ours.one", "ours.one.two"]
    assert loggers.show("ours.one") == {"level": "DEBUG", "last_modified": 5}
    assert loggers.show("ourselves")["last_modified"] is None
    assert logging.getLogger("ours.one.two").isEnabledFor(logging.DEBUG)
    assert {"ours", "ours.one.two", "ourselves", ROOT} <= loggers.all().keys()
    assert loggers.set("ours.one", "DEBUG") == [], "they have that level"
    assert loggers.set("ours.one", "OFF") == ["ours.one", "ours.one.two"]
    assert not logging.getLogger("ours.one").isEnabledFor(logging.CRITICAL)
    assert logging.getLogger("ours").isEnabledFor(logging.DEBUG)


@pytest.mark.parametrize(
    "level", ["ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"]
)
def test_all_of_kafkas_levels_are_shown_as_they_were_set(name: str, level: str) -> None:
    loggers = Loggers()
    loggers.set(name, level)
    assert loggers.show(name)["level"] == level


def test_the_root_sets_all_loggers(name: str) -> None:
    loggers = Loggers()
    loggers.set("ours.one", "INFO")
    assert {ROOT, "ours", "ours.one"} <= set(loggers.set(ROOT, "CRITICAL"))
    assert logging.getLogger("ours.one").level == logging.CRITICAL
    assert logging.getLogger("ours").level == logging.NOTSET, "it follows the root as before"
    assert (logging.getLogger().level, loggers.show(ROOT)["level"]) == (logging.CRITICAL, "FATAL")


def test_unknown_logger_or_level_is_refused() -> None:
    with pytest.raises(UnknownConnectorError, match=r"there is no logger 'none\.such'"):
        Loggers().show("none.such")
    with pytest.raises(
        UnknownConnectorError, match="unknown level 'loud'; the known ones: ALL, TRACE"
    ):
        Loggers().set("ours", "loud")
    assert level_name("Warning") == "WARN"


@pytest.mark.parametrize("_time", ["once", "again"])
def test_a_command_that_a_test_runs_leaves_no_level_for_the_next_test(
    _time: str, tmp_path: Path
) -> None:
    assert logging.getLogger().level == _LEVEL
    main(["log", "--segments", str(tmp_path), "--log-level", "error"])
    assert logging.getLogger().level == logging.ERROR, "the command configured it"
