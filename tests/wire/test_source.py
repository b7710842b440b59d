"""Tests the writer of source."""

from uuid import UUID

import pytest

from groupsdk.wire.messages.groups import HeartbeatRequest
from groupsdk.wire.source import SourceWriter


def test_a_function_is_made_of_its_lines() -> None:
    writer = SourceWriter(HeartbeatRequest, 4)
    value = writer.constant("value", UUID(int=7))
    with writer.block("def answer(x):"):
        with writer.block("if x:"):
            writer.line(f"return {value}")
        writer.line("return x")

    answer = writer.function("answer")

    assert answer(1) == UUID(int=7)
    assert answer(0) == 0
    assert writer.title == "HeartbeatRequest v4"
    assert writer.flexible
    assert not SourceWriter(HeartbeatRequest, 3).flexible


@pytest.mark.parametrize("value", [None, 0, -5, True, "", b"", ()])
def test_short_constants_stand_in_place(value: object) -> None:
    writer = SourceWriter(HeartbeatRequest, 4)

    assert writer.constant("c", value) == repr(value)
    assert not writer.names


def test_variables_are_distinct() -> None:
    writer = SourceWriter(HeartbeatRequest, 4)

    assert len({writer.variable("x") for _ in range(20)}) == 20


@pytest.mark.parametrize(("data", "place"), [([], ""), ([1], "a"), ([1, 1], "a.b")])
def test_the_failing_line_tells_the_field(data: list[int], place: str) -> None:
    writer = SourceWriter(HeartbeatRequest, 4)
    with writer.block("def read(d):"):
        writer.line("d[0]")
        with writer.field("a"):
            writer.line("d[1]")
            with writer.field("b"):
                writer.line("d[2]")
    read = writer.function("read")

    def failing() -> BaseException:
        try:
            read(data)
        except IndexError as error:
            # the trace starts in this function; the compiled ones catch their own errors themselves
            inner = error.__traceback__.tb_next if error.__traceback__ else None
            return error.with_traceback(inner)
        raise AssertionError("it did not fail")

    assert writer.place_of(failing()) == place


def test_an_error_that_was_never_raised_has_no_place() -> None:
    assert SourceWriter(HeartbeatRequest, 4).place_of(ValueError()) == ""
