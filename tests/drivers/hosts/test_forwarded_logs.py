"""Test that log records of the child come out as if they were ours."""

import logging
from collections.abc import Iterator

import pytest

from groupsdk.drivers.hosts.frames import ForwardingHandler, Logged, log_here, lowest_level


NAME = "groupsdk.tests.forward"


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger of ours that passes nothing on, and is as before afterwards."""
    logger = logging.getLogger(NAME)
    before = logger.level, logger.propagate, list(logger.handlers)
    yield logger
    logger.setLevel(before[0])
    logger.propagate = before[1]
    logger.handlers = before[2]


def forwarded(logger: logging.Logger) -> list[Logged]:
    sent: list[Logged] = []
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    logger.handlers = [ForwardingHandler(sent.append)]
    return sent


def test_a_record_becomes_plain_values(logger: logging.Logger) -> None:
    sent = forwarded(logger)
    logger.warning("group=%s: %d %%", "g", 5)
    (logged,) = sent
    assert (logged.name, logged.level, logged.message) == (NAME, logging.WARNING, "group=g: 5 %")
    assert logged.path == __file__
    assert logged.function == "test_a_record_becomes_plain_values"
    assert logged.trace is None


def test_an_exception_becomes_text(logger: logging.Logger) -> None:
    sent = forwarded(logger)
    try:
        int("bug")
    except ValueError:
        logger.exception("it ended")
    logger.error("no exception", exc_info=(None, None, None))
    assert sent[0].trace is not None
    assert sent[0].trace.endswith("invalid literal for int() with base 10: 'bug'")
    assert sent[1].trace is None


def test_a_record_that_cannot_be_formatted_is_reported_and_not_raised(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = forwarded(logger)
    logger.warning("%d", "no number")
    assert sent == []
    assert "Logging error" in capsys.readouterr().err


def logged(level: int = logging.WARNING, trace: str | None = None) -> Logged:
    return Logged(NAME, level, "100 %d done", 12.345, "worker", "/child.py", 7, "run", trace)


def test_forwarded_record_is_logged_by_the_logger_of_its_name(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    log_here(logged(trace="Traceback\nValueError: bug"), 4711)
    (record,) = caplog.records
    assert record.name == NAME
    assert record.getMessage() == "100 %d done"
    assert (record.process, record.threadName) == (4711, "worker")
    assert (record.created, round(record.msecs)) == (12.345, 345)
    assert (record.pathname, record.lineno, record.funcName) == ("/child.py", 7, "run")
    assert logging.Formatter().format(record) == "100 %d done\nTraceback\nValueError: bug"


def test_forwarded_record_below_the_level_is_dropped(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    logger.setLevel(logging.ERROR)
    log_here(logged(logging.WARNING), 1)
    assert caplog.records == []


def test_the_lowest_level_is_that_of_any_logger_of_ours(logger: logging.Logger) -> None:
    ours = logging.getLogger("groupsdk")
    before = ours.level
    try:
        ours.setLevel(logging.ERROR)
        logger.setLevel(logging.INFO)
        assert lowest_level() == logging.INFO
        logger.setLevel(logging.CRITICAL)
        assert lowest_level() == logging.ERROR
        logging.disable(logging.CRITICAL)
        assert lowest_level() > logging.CRITICAL
    finally:
        logging.disable(logging.NOTSET)
        ours.setLevel(before)
