"""Test the user data of the weighted assignor."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings, strategies as st

from assignors.weighted.report import WeightReport, is_weight
from groupsdk.errors import DecodeError
from groupsdk.wire.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolEncoder


REPORT = WeightReport(2.5, {"t": (0, 2), "u": (1,)}, 7, {"t": {0: 1.5, 3: 0.0}, "v": {1: 2.0}})


def with_inside(inside: bytes) -> bytes:
    return ConsumerProtocolEncoder().assignment(ConsumerProtocolAssignment({}, inside))


def test_there_and_back() -> None:
    assert WeightReport.decode(REPORT.encode()) == REPORT
    assert WeightReport.decode(WeightReport().encode()) == WeightReport()


def test_weights_that_cannot_be_are_left_out() -> None:
    weights = {"t": {0: float("nan"), 1: float("inf"), 2: -1.0, 3: 1e16, 4: 4.0}}

    read = WeightReport.decode(WeightReport(weights=weights).encode())

    assert read.weights == {"t": {4: 4.0}}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "of the assignment end within"),
        (with_inside(b""), "has 14 bytes, not 0"),
        (with_inside(struct.pack(">hid", -1, 0, 1.0)), "version -1 of a weight report"),
        (with_inside(struct.pack(">hid", 0, 0, 0.0)), "the capacity is 0.0, not 0.01 to 100"),
        (with_inside(struct.pack(">hid", 0, 0, float("nan"))), "the capacity is nan"),
        (
            with_inside(
                struct.pack(">hid", 0, 0, 1.0)
                + ConsumerProtocolEncoder().assignment(
                    ConsumerProtocolAssignment({"t": (0, 1)}, b"12345678")
                )
            ),
            "8 bytes of weights for 2 partitions; 16 expected",
        ),
    ],
)
def test_data_that_is_not_a_weight_report_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        WeightReport.decode(data)


@settings(deadline=None)
@given(st.data())
def test_no_changed_report_raises_anything_but_a_decode_error(data: st.DataObject) -> None:
    message = bytearray(REPORT.encode())
    message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    with suppress(DecodeError):
        WeightReport.decode(bytes(message[: data.draw(st.integers(0, len(message)))]))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, True), (1e15, True), (1.1e15, False), (-0.1, False), (float("nan"), False)],
)
def test_finite_number_of_at_least_zero_is_a_weight(value: float, expected: bool) -> None:
    assert is_weight(value) is expected
