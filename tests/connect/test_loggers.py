"""Holds the levels of loggers, under Kafka's names."""

import logging
from collections.abc import Iterator

import pytest

from groupsdk.clock import ManualClock
from groupsdk.connect.errors import UnknownConnectorError
from groupsdk.connect.loggers import ROOT, Loggers, level_name


@pytest.fixture
def name() -> Iterator[str]:
    """The name of a logger that has two below it."""
    found = [logging.getLogger(each) for each in ("ours", "ours.one", "ours.one.two", "ourselves")]
    before = logging.getLogger().level
    yield "ours"
    for each in found:
        each.setLevel(logging.NOTSET)
    logging.getLogger().setLevel(before)


def test_a_level_is_set_for_all_below(name: str) -> None:
    clock = ManualClock(5)
    loggers = Loggers(clock)
    assert name not in loggers.all()
    assert loggers.set(name, "debug") == ["ours", "ours.one", "ours.one.two"]
    assert loggers.show("ours.one") == {"level": "DEBUG", "last_modified": 5}
    assert loggers.show("ourselves")["last_modified"] is None
    assert logging.getLogger("ours.one.two").isEnabledFor(logging.DEBUG)
    assert {"ours", "ours.one.two", ROOT} <= loggers.all().keys()
    assert "ourselves" not in loggers.all()
    assert loggers.set("ours.one", "OFF") == ["ours.one", "ours.one.two"]
    assert not logging.getLogger("ours.one").isEnabledFor(logging.CRITICAL)
    assert logging.getLogger("ours").isEnabledFor(logging.DEBUG)


@pytest.mark.parametrize("level", ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"])
def test_all_of_kafkas_levels_are_shown_as_they_were_set(name: str, level: str) -> None:
    loggers = Loggers()
    loggers.set(name, level)
    assert loggers.show(name)["level"] == level


def test_the_root_is_set_alone(name: str) -> None:
    loggers = Loggers()
    assert loggers.set(ROOT, "CRITICAL") == [ROOT]
    assert (logging.getLogger().level, loggers.show(ROOT)["level"]) == (logging.CRITICAL, "FATAL")


def test_what_there_is_not_is_said() -> None:
    with pytest.raises(UnknownConnectorError, match=r"there is no logger 'none\.such'"):
        Loggers().show("none.such")
    with pytest.raises(UnknownConnectorError, match="there is no level 'loud', only: TRACE"):
        Loggers().set("ours", "loud")
    assert level_name("Warning") == "WARN"
