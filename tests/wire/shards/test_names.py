"""Holds how names are written: all come back, numbered ones take little room, and what is read is bounded."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.wire.shards.fields import Reader, Writer
from groupsdk.wire.shards.names import (
    GREATEST_COUNT,
    _write_halves,
    natural_key,
    read_names,
    split_name,
    write_names,
)


PAGE = Path(__file__).resolve().parents[3] / "docs" / "shards-format.md"


def encoded(names: set[str]) -> tuple[bytes, list[str]]:
    """Return the bytes of names, and their order."""
    writer = Writer()
    order = write_names(writer, names)
    return writer.finish(), order


def as_name(prefix: str, number: str) -> str:
    """Cut a name to the length that names may have."""
    return (prefix + number).encode()[:249].decode(errors="ignore") or "x"


PREFIXES = st.sampled_from(
    ["", "shard-", "shard-1", "shard", "s", "é", "日本-", "\U0001f600", "a" * 240, "٣", "²"]
)
NUMBERS = st.one_of(
    st.integers(0, 300).map(str),
    st.integers(0, 10**40).map(str),
    st.integers(0, 300).map(lambda number: f"{number:03d}"),
    st.sampled_from(["", "0", "00", "000", "01", "9" * 18, "9" * 19, "0" * 18, "0" * 30, "1x"]),
)
NAMES = st.sets(
    st.one_of(
        st.builds(as_name, PREFIXES, NUMBERS),
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
    ),
    max_size=60,
)


@given(NAMES)
@example({"a1", "a01", "a001", "a0", "a00", "a", "a10", "a9"})
@example({"999999999999999999", "1000000000000000000", "9" * 249, "0" * 249})
@example({"a\n1", "a\n", "1\n"})
def test_names_come_back_in_the_order_that_was_told(names: set[str]) -> None:
    data, order = encoded(names)
    reader = Reader(data, "it")

    assert read_names(reader) == order
    assert set(order) == names
    assert reader.left == 0


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("shard-17", ("shard-", 0, 17)),
        ("shard-017", ("shard-", 3, 17)),
        ("shard-0", ("shard-", 0, 0)),
        ("shard-00", ("shard-", 2, 0)),
        ("17", ("", 0, 17)),
        ("shard", None),
        ("shard-17b", None),
        ("x٣", None),
        ("1" * 20, ("11", 0, int("1" * 18))),
    ],
)
def test_a_name_is_split_at_its_number(name: str, parts: tuple[str, int, int] | None) -> None:
    assert split_name(name) == parts


def test_numbers_sort_as_numbers() -> None:
    names = ["shard-10", "shard-9", "shard-09", "shard", "other"]

    assert sorted(names, key=natural_key) == ["other", "shard", "shard-9", "shard-09", "shard-10"]


def test_names_spread_at_random_take_less_than_ten_bits_each() -> None:
    numbers = random.Random(1).sample(range(100_000), 500)

    data, _ = encoded({f"shard-{number}" for number in numbers})

    assert len(data) < 10 / 8 * 500


def test_the_page_shows_numbers_in_halves_as_they_are_written() -> None:
    spread = bytes.fromhex("05 07  00 9f 1e 40  90 60")
    data = BOMB + varint(4) + varint(7 + 1) + spread + varint(0)
    names = ["a5", "a300", "a1000", "a1001"]

    assert read_names(Reader(data, "it")) == names
    assert re.search("`05 07`.*`00 9f 1e 40`.*`90 60`", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    writer = Writer()
    _write_halves(writer, [5, 300, 1000, 1001], 7)
    assert writer.finish() == spread


def test_consecutive_names_take_a_few_bytes_in_all() -> None:
    data, _ = encoded({f"shard-{number}" for number in range(1000, 51_000)})

    assert len(data) <= 20


def test_more_names_than_one_message_may_have_are_not_written() -> None:
    with pytest.raises(EncodeError, match="at most 500000 names"):
        encoded({str(number) for number in range(GREATEST_COUNT + 1)})


def varint(value: int) -> bytes:
    """Return the bytes of a number."""
    writer = Writer()
    writer.uvarint(value)
    return writer.finish()


BOMB = varint(1) + b"\x00\x01a\x00"
"""One family with the prefix "a"."""
RUNS = varint(0)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (
            BOMB + varint(600_000) + RUNS + varint(1) + varint(599_998),
            "600000 numbers, at most 500000",
        ),
        (BOMB + varint(3) + RUNS + varint(1) + varint(7), "7 numbers in a run, at most 1"),
        (BOMB + varint(1) + RUNS + varint(1) + varint(0), "numbers in a run"),
        (BOMB + varint(1) + RUNS + varint(10**18 << 1), "more than 18 digits"),
        (BOMB + varint(1) + varint(99), "99 lower bits, at most 61"),
        (BOMB + varint(2) + varint(1) + varint(0) + varint(0) + b"\x40", "upper bits of 2 numbers"),
        (BOMB + varint(1) + varint(1) + varint(0) + varint(9), "9 steps of upper bits, at most 8"),
        (BOMB + varint(2) + varint(1) + varint(0) + varint(2) + b"\xc0", "upper bits of 2 numbers"),
        (
            BOMB + varint(1) + varint(1) + varint(10**18) + varint(0) + b"\x80",
            "more than 18 digits",
        ),
        (
            # the first number is the greatest, as the lower bits descend
            BOMB
            + varint(2)
            + varint(61)
            + varint(0)
            + varint(0)
            + ((2**60 - 1) << 60).to_bytes(15)
            + b"\xc0",
            "more than 18 digits",
        ),
        (BOMB + varint(2**40), "numbers, at most 500000"),
        (b"\x01\x00\x01a\x13", "19 digits, at most 18"),
        (b"\x00" + varint(600_000), "600000 names, at most 500000"),
        (b"\x00\x01\x01\x00", "1 shared bytes, at most 0"),
        (b"\x00\x01\x00\x00", "a name is empty"),
        (b"\x00\x02\x00\x01a\x01\x00", "a name is there twice"),
        (b"\x01\x00\x01a\x00\x02\x00\x01\x00\x01\x00\x02a1", "a name is there twice"),
        (b"\x00\x01\x00\xfa\x01", "250 bytes of a name, at most 249"),
        (b"\x00\x01\x00\x01\xff", "not UTF-8"),
        (b"\x01\x00\xf9\x01" + b"a" * 249 + b"\x00\x02\x00\x01\x00\x00", "a name has 250 bytes"),
        (
            b"\x01\x00\xe0\x01"
            + b"a" * 224
            + b"\x12"
            + varint(300_000)
            + RUNS
            + varint(1)
            + varint(299_998),
            "bytes of them",
        ),
    ],
)
def test_bytes_that_are_no_names_are_refused(data: bytes, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        read_names(Reader(data, "it"))


@given(st.binary(max_size=200))
def test_random_bytes_are_names_or_refused(data: bytes) -> None:
    try:
        names = read_names(Reader(data, "it"))
    except DecodeError:
        return
    assert len(set(names)) == len(names) <= GREATEST_COUNT
    assert all(0 < len(name.encode()) <= 249 for name in names)
