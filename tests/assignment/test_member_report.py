"""Reports behind user data: every byte, bounds, other clients' data, and those who read only the front."""

import struct
from zlib import crc32

import pytest
from hypothesis import example, given, strategies as st

from assignors.sticky.user_data import decode_claim, encode_claim
from groupsdk.assignment import MemberReport, Subscription
from groupsdk.assignment.member_report import (
    GREATEST_LOAD,
    MOST_LAGS,
    is_load,
    merged_lags,
    split_report,
    with_report,
)
from groupsdk.assignment.subscriptions import decode_subscriptions, encode_subscription


LAGS = st.dictionaries(
    st.text(max_size=5).filter(lambda name: name.isascii()),
    st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**40), min_size=1, max_size=5),
    max_size=3,
)


def sealed(body: bytes, size: int | None = None) -> bytes:
    """Put an end to a report, as its writer does."""
    length = len(body) if size is None else size
    return body + struct.pack(">II8s", length, crc32(body), b"groupsdk")


def test_its_bytes_are_as_documented() -> None:
    report = MemberReport("c-1", 0.5, {"t": {3: 5, 7: 4_097}})
    body = (
        b"\x00\x00"  # version 0
        b"\x02"  # the load is known, and there is user data
        b"\x3f\xe0\x00\x00\x00\x00\x00\x00"  # 0.5
        b"\x00\x03c-1"
        b"\x00\x00\x00\x02"  # two lags
        b"\x00\x05"  # 5
        b"\x14\x00"  # 1,024 shifted twice: 4,096
        b"\x00\x00"  # Kafka's ConsumerProtocolAssignment, version 0
        b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x07"
        b"\xff\xff\xff\xff"
    )
    assert with_report(b"own", report) == b"own" + sealed(body)
    assert split_report(b"own" + sealed(body)) == (
        b"own",
        MemberReport("c-1", 0.5, {"t": {3: 5, 7: 4_096}}),
    )


@given(
    st.none() | st.binary(max_size=20),
    st.text(max_size=300),
    st.none() | st.floats(0, GREATEST_LOAD),
    LAGS,
)
def test_member_report_is_decoded_with_nearly_exact_lags(
    own: bytes | None, client_id: str, load: float | None, lags: dict[str, dict[int, int]]
) -> None:
    found, report = split_report(with_report(own, MemberReport(client_id, load, lags)))
    assert found == own
    assert report is not None
    assert report.load == load
    assert len(report.client_id.encode()) <= 255 + 2
    assert report.lags.keys() == lags.keys()
    for topic, each in lags.items():
        assert report.lags[topic].keys() == each.keys()
        for partition, lag in each.items():
            assert lag * (1 - 1 / 1024) <= report.lags[topic][partition] <= lag


@given(st.none() | st.binary(max_size=60), st.binary(max_size=60))
@example(b"", b"")
@example(b"groupsdk", b"\0\0")
def test_user_data_that_is_not_a_report_is_kept(data: bytes | None, body: bytes) -> None:
    assert split_report(data) == (data, None)
    for odd in (sealed(body, len(body) + 1), sealed(body, 2**32 - 1), sealed(body)[:-1]):
        assert split_report(odd) == (odd, None)
    split_report(sealed(body))


@given(st.data())
def test_a_damaged_report_stays_user_data(data: st.DataObject) -> None:
    whole = bytearray(with_report(b"own", MemberReport("c", 1.0, {"t": {0: 1, 1: 2}})))
    at = data.draw(st.integers(3, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    assert split_report(bytes(whole)) == (bytes(whole), None)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        struct.pack(">hBdHI", -1, 0, 0.0, 0, 0) + bytes(6) + b"\xff\xff\xff\xff",
        struct.pack(">hBdHI", 0, 0, 0.0, 0, 2**32 - 1) + bytes(100),
        struct.pack(">hBdHI", 0, 0, 0.0, 0, 1) + bytes(8) + b"\xff\xff\xff\xff",
        struct.pack(">hBdHI", 0, 0, 0.0, 60_000, 0),
    ],
)
def test_a_report_out_of_bounds_stays_user_data(body: bytes) -> None:
    assert split_report(sealed(body)) == (sealed(body), None)


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    end = len(with_report(b"", MemberReport("c", 1.0, {"t": {0: 1}}))) - 16
    body = with_report(b"", MemberReport("c", 1.0, {"t": {0: 1}}))[:end]
    newer = b"\x00\x07" + body[2:] + b"what is new"
    assert split_report(sealed(newer)) == (b"", MemberReport("c", 1.0, {"t": {0: 1}}))


@pytest.mark.parametrize("load", [-1.0, float("nan"), float("inf"), 2e15])
def test_an_impossible_load_is_none(load: float) -> None:
    assert not is_load(load)
    _, report = split_report(with_report(None, MemberReport("c", load)))
    assert report == MemberReport("c")


def test_of_too_many_lags_the_greatest_are_told() -> None:
    lags = {"t": {number: number for number in range(MOST_LAGS + 5)}}
    _, report = split_report(with_report(None, MemberReport(lags=lags)))
    assert report is not None
    assert report.lags["t"].keys() == set(range(5, MOST_LAGS + 5))


def test_those_who_read_the_front_do_not_notice_it() -> None:
    claim = encode_claim({"t": (0, 1)}, 7)
    assert decode_claim(with_report(claim, MemberReport("c"))) == decode_claim(claim)


def test_a_leader_finds_reports_apart_from_user_data() -> None:
    told = encode_subscription(
        Subscription(["t"], user_data=with_report(b"own", MemberReport("c", lags={"t": {0: 9}})))
    )
    plain = encode_subscription(Subscription(["t"], user_data=b"own"))
    found = decode_subscriptions({"a": told, "b": plain})
    assert found["a"].user_data == found["b"].user_data == b"own"
    assert found["b"].report is None
    assert merged_lags({each: found[each].report for each in found}) == {"t": {0: 9}}
    more = {"a": found["a"].report, "c": MemberReport(lags={"t": {0: 3, 1: 4}})}
    assert merged_lags(more) == {"t": {0: 9, 1: 4}}
