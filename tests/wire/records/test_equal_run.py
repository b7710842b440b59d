"""Tests that records checked many at once are found as good or bad as when they are walked over one by one."""

import re

import pytest
from hypothesis import given, settings, strategies as st

from groupsdk.errors import DecodeError
from groupsdk.wire.records import record_check
from groupsdk.wire.records.batch import BatchHeader, read_header
from groupsdk.wire.records.record import Record, build_batch
from groupsdk.wire.records.record_check import LEAST, EqualRun, Walked, body_of, equal_run, walk
from tests.broker.log.bad_batches import record, with_body


runs = st.lists(
    st.tuples(
        st.integers(1, 150),  # records
        st.sampled_from([None, 0, 3, 63, 64, 200]),  # the size of the key
        st.sampled_from([None, 0, 5, 40, 100, 9000]),  # and of the value
        st.sampled_from([0, 1, 63, 64, 8191, 8192, -1]),  # the first timestamp delta
        st.integers(0, 2),  # by how much it grows
        st.booleans(),  # headers
    ),
    min_size=1,
    max_size=4,
)


def body_from(parts: list[tuple[int, int | None, int | None, int, int, bool]]) -> tuple[bytes, int]:
    """Encodes runs of records; gives them with their number."""
    out: list[bytes] = []
    for count, key, value, time, step, headers in parts:
        for number in range(count):
            out.append(
                record(
                    len(out),
                    time=time + number * step,
                    key=None if key is None else b"k" * key,
                    value=None if value is None else b"v" * value,
                    headers=b"\x02\x02h\x02x" if headers else b"\0",
                )
            )
    return b"".join(out), len(out)


def outcome(body: bytes, header: BatchHeader) -> Walked | str | None:
    """Walks records; gives what was found, or the error's text."""
    try:
        *_, found = walk(body, header)
    except DecodeError as error:
        return str(error)
    return found


def outcomes(body: bytes, header: BatchHeader) -> tuple[Walked | str | None, Walked | str | None]:
    """Walks records as the broker does, and one by one."""
    found = outcome(body, header)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_check, "equal_run", lambda *_: None)
        patch.setattr(record_check, "_walk_known", lambda *each: record_check._walk(*each[:4]))
        return found, outcome(body, header)


@settings(max_examples=60)
@given(runs, st.data())
def test_many_at_once_are_as_one_by_one(
    parts: list[tuple[int, int | None, int | None, int, int, bool]], data: st.DataObject
) -> None:
    body, count = body_from(parts)
    header = read_header(with_body(body, count, 1_000_000))
    found, single = outcomes(body, header)
    assert found == single
    assert isinstance(found, Walked)
    for _ in range(10):
        at = data.draw(st.integers(0, len(body) - 1))
        damaged = bytearray(body)
        damaged[at] ^= data.draw(st.integers(1, 255))
        cut = data.draw(st.sampled_from([len(body)] * 3 + [at]))
        found, single = outcomes(bytes(damaged[:cut]), header)
        assert found == single


mixed = st.lists(
    st.tuples(
        st.sampled_from([None, None, None, 3]),
        st.sampled_from([None, 20, 40, 62, 63, 64, 65, 80, 81, 8191]),
        st.sampled_from([0, 0, 0, 1, 2, 63, 64, -1]),
        st.sampled_from([False] * 9 + [True]),
    ),
    min_size=90,
    max_size=250,
)


@settings(max_examples=60)
@given(mixed, st.integers(0, 60), st.data())
def test_heads_that_repeat_are_as_one_by_one(
    parts: list[tuple[int | None, int | None, int, bool]], alike: int, data: st.DataObject
) -> None:
    body, count = body_from(
        [(1, None, 64 + alike % 7, 0, 0, False)] * alike
        + [(1, *each[:3], 0, each[3]) for each in parts]
    )
    header = read_header(with_body(body, count, 1_000_000))
    found, single = outcomes(body, header)
    assert found == single
    assert isinstance(found, Walked)
    for _ in range(6):
        # near the start of a record rather than within a large value
        at = data.draw(st.sampled_from([m.start() for m in re.finditer(rb"[^v]", body)]))
        damaged = bytearray(body)
        damaged[at] ^= data.draw(st.integers(1, 255))
        cut = data.draw(st.sampled_from([len(body)] * 3 + [at]))
        found, single = outcomes(bytes(damaged[:cut]), header)
        assert found == single


def test_every_byte_of_a_record_is_looked_at_wherever_it_stands() -> None:
    # where offset deltas take a byte more, where their middle byte begins anew, and at either end
    count = 16_400
    body = b"".join(record(number, key=None, value=b"value") for number in range(count))
    header = read_header(with_body(body, count, 1_000))
    starts = [0]
    for number in range(count):
        starts.append(starts[-1] + len(record(number, key=None, value=b"value")))
    for number in (0, 63, 64, 4242, 8191, 8192, 16383, 16384, count - 1):
        for at in range(starts[number], starts[number + 1]):
            for change in (1, 0x80):
                damaged = bytearray(body)
                damaged[at] ^= change
                found, single = outcomes(bytes(damaged), header)
                assert found == single, (number, at - starts[number], change)


def test_a_run_says_what_it_has() -> None:
    records = [Record(n, 1_000 + n // 10, None, b"v" * 20) for n in range(200)]
    batch = build_batch(records)
    body = body_of(batch, read_header(batch))
    size = len(record(0, key=None, value=b"v" * 20))

    assert equal_run(body, 0, 0, 200) == EqualRun(64, size, 6, keyless=True)
    assert equal_run(body, 64 * size, 64, 200) == EqualRun(136, size + 1, 19, keyless=True)
    assert equal_run(body, 64 * size, 64, 64 + LEAST) == EqualRun(LEAST, size + 1, 7, keyless=True)
    assert equal_run(body, 64 * size, 64, 63 + LEAST) is None
    assert equal_run(body, 64 * size, 65, 200) is None
    assert equal_run(body, 1 << 30, 64, 200) is None
    assert equal_run(body, 0, 1 << 20, (1 << 20) + 200) is None
