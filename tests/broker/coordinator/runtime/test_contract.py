"""Tests the values between the coordinators' machines and what runs them."""

from groupsdk.broker.coordinator.runtime.contract import (
    NOTHING,
    LogRecord,
    ProducerStamp,
    RequestContext,
    Result,
)


def test_nothing_is_to_be_done_by_default() -> None:
    assert Result() == NOTHING
    assert (NOTHING.records, NOTHING.replies, NOTHING.producer, NOTHING.markers) == (
        (),
        (),
        None,
        (),
    )


def test_values_are_equal_by_what_they_say() -> None:
    assert LogRecord(b"k", None) == LogRecord(b"k", None)
    assert len({ProducerStamp(1, 2), ProducerStamp(1, 2), ProducerStamp(1, 3)}) == 2
    context = RequestContext(1, 4)
    assert (context.client_host, context.principal) == ("/127.0.0.1", "User:ANONYMOUS")
