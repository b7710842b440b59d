"""Tests what consumers put into their groups' records: Kafka's own bytes, and what is not theirs."""

import pytest
from hypothesis import given, strategies as st

from groupsdk.wire.coordinator_records.dump import (
    Assignment,
    Subscription,
    TopicPartition,
    read_embedded,
)


BODY = "00000002 0001 74 0001 75 00000002 0102"
OWNED = "00000001 0001 74 00000002 00000000 00000002"
T_0_2 = (TopicPartition("t", (0, 2)),)


@pytest.mark.parametrize(
    ("version", "data", "expected"),
    [
        (0, f"0000 {BODY}", Subscription(("t", "u"), b"\1\2")),
        (1, f"0001 {BODY} {OWNED}", Subscription(("t", "u"), b"\1\2", T_0_2)),
        (2, f"0002 {BODY} {OWNED} 00000007", Subscription(("t", "u"), b"\1\2", T_0_2, 7)),
        (
            3,
            f"0003 {BODY} {OWNED} 00000007 0002 7231",
            Subscription(("t", "u"), b"\1\2", T_0_2, 7, "r1"),
        ),
        (3, "0003 00000001 0001 74 ffffffff 00000000 ffffffff ffff", Subscription(("t",))),
    ],
)
def test_subscriptions_of_kafka_are_read(version: int, data: str, expected: Subscription) -> None:
    assert read_embedded(Subscription, bytes.fromhex(data)) == (expected, version)


@pytest.mark.parametrize("version", range(4))
def test_assignments_of_kafka_are_read(version: int) -> None:
    data = bytes.fromhex(f"000{version} {OWNED} ffffffff")

    assert read_embedded(Assignment, data) == (Assignment(T_0_2), version)


@pytest.mark.parametrize(
    "data", ["", "00", "0004" + "00" * 30, "ffff" + "00" * 30, f"0003 {BODY}", "0000 7fffffff"]
)
def test_other_bytes_are_none(data: str) -> None:
    assert read_embedded(Subscription, bytes.fromhex(data)) is None


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_none(data: bytes) -> None:
    for declared in (Subscription, Assignment):
        found = read_embedded(declared, b"\0\1" + data)
        assert found is None or isinstance(found[0], declared)
