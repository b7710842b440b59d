"""Tests the headers of records: Kafka's layout, and what runs over its record."""

import pytest
from hypothesis import given, strategies as st

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.wire.records.headers import Header, read_headers, write_headers


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=9) | st.just("ä" * 90)
values = st.none() | st.binary(max_size=9) | st.just(b"x" * 3000)


def test_the_layout_is_that_of_kafka() -> None:
    headers: tuple[Header, ...] = (("ä", b"1"), ("n", None))

    # count 2; two bytes of a name, one of a value; one byte of a name, null
    assert write_headers(headers).hex() == "0404c3a40231026e01"


@given(st.lists(st.tuples(names, values), max_size=70).map(tuple), st.binary(max_size=3))
def test_headers_are_read_back(headers: tuple[Header, ...], rest: bytes) -> None:
    encoded = write_headers(headers)

    stop = 1 + len(encoded)
    assert read_headers(b"x" + encoded + rest, 1, stop) == (headers, stop)


@pytest.mark.parametrize("count", ["01", "04", "feffffff0f"])
def test_a_count_beyond_the_record_is_refused(count: str) -> None:
    data = bytes.fromhex(count + "000000")

    with pytest.raises(DecodeError, match="headers where 3 bytes are left"):
        read_headers(data, 0, len(data))


def test_no_text_is_refused() -> None:
    with pytest.raises(EncodeError, match="a character that UTF-8 cannot carry"):
        write_headers((("\ud800", None),))


def test_a_name_of_any_bytes_is_read_and_written_back() -> None:
    # Kafka stores it, so a consumer and the cleaner get it
    data = bytes.fromhex("0202ff01")
    headers, stop = read_headers(data, 0, 4)
    assert stop == 4
    assert write_headers(headers) == data
