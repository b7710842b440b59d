"""Holds what is read of a request."""

import asyncio
import json
from collections.abc import Iterable

import pytest
from hypothesis import given, strategies as st
from starlette.requests import Request

from groupsdk.connect.rest import messages
from groupsdk.connect.rest.messages import BadRequestError, json_object, parsed, read_body


HEADERS = [(b"content-type", b"application/json; charset=utf-8")]


def request_of(chunks: Iterable[bytes]) -> Request:
    """A request whose body comes in pieces."""
    rest = list(chunks)

    async def receive() -> dict[str, object]:
        chunk = rest.pop(0) if rest else b""
        return {"type": "http.request", "body": chunk, "more_body": bool(rest)}

    return Request({"type": "http", "method": "POST", "headers": HEADERS}, receive)


def test_a_body_is_read_once_and_can_be_sent_on() -> None:
    async def read() -> tuple[bytes, bytes]:
        request = request_of([b'{"a"', b": 1}"])
        return await read_body(request), await request.body()

    assert asyncio.run(read()) == (b'{"a": 1}', b'{"a": 1}')


def test_no_more_is_read_than_allowed() -> None:
    with pytest.raises(BadRequestError, match="longer than 5 bytes"):
        asyncio.run(read_body(request_of([b"123", b"456", b"7" * 100]), 5))


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"{",
        b'{"a": NaN}',
        b"-Infinity",
        b'{"a": "\\ud800"}',
        b'{"\xed\xa0\x80": 1}',
        b"[" * 100_000,
        b"9" * 5_000,
        b"[" * 101 + b"]" * 101,
        b'[{"a":' * 51 + b"1" + b"}]" * 51,
    ],
)
def test_json_that_no_answer_could_carry_is_refused(wrong: bytes) -> None:
    with pytest.raises(BadRequestError, match=r"not JSON|nested more than 100 levels deep"):
        parsed(wrong)


def test_json_in_any_encoding_and_not_too_deep_is_taken() -> None:
    text = '{"a": "\\u00e9\\ud83d\\ude00", "é": [1, {}]}'
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        assert parsed(text.encode(encoding)) == {"a": "é😀", "é": [1, {}]}
    deep = b"[" * 99 + b'{"a":1}' + b"]" * 99
    assert parsed(b"[" + b"[]," * 500 + b"1]") == [*([[]] * 500), 1]
    assert str(parsed(deep)).count("[") == 99


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_body_that_is_not_an_object_is_refused(chunks: list[bytes]) -> None:
    try:
        body = asyncio.run(json_object(request_of(chunks)))
    except BadRequestError as error:
        assert "the body" in str(error)  # noqa: PT017  # either may come
    else:
        assert isinstance(body, dict)


WRONG = [b"{", b"[1,", b"NaN", b'"\\ud800"', b"[" * 101 + b"]" * 101, b"1 2", b"[1}", b"9" * 5_000]
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=20,
)
texts = st.builds(
    lambda value, is_ascii, text, at: (
        (whole := json.dumps(value, ensure_ascii=is_ascii))[:at] + text + whole[at:]
    ),
    values,
    st.booleans(),
    st.sampled_from(["", "", " ", "{", "]", ",", "\\u12", '"', "Infinity"]),
    st.integers(0, 40),
)


@given(
    texts.map(lambda text: text.encode(errors="replace")) | st.sampled_from(WRONG), st.booleans()
)
def test_a_large_body_is_read_on_a_thread_as_a_small_one(data: bytes, as_written: bool) -> None:
    number = str if as_written else None

    async def large() -> object:
        spaces = b" " * (messages._LARGE_BODY + 1)
        return await messages.parsed_beside(spaces + data, number)

    try:
        expected = parsed(data, number)
    except BadRequestError as error:
        with pytest.raises(BadRequestError, match=str(error)):
            asyncio.run(large())
    else:
        found = asyncio.run(large())
        assert repr(found) == repr(expected)


def test_large_bodies_hold_no_loop_and_are_read_one_after_the_other() -> None:
    bodies = [b"[%d" % n + b",[]" * 30_000 + b"]" for n in range(3)]
    done: list[int] = []

    async def read(body: bytes) -> None:
        done.append((await messages.parsed_beside(body))[0])

    async def turns() -> int:
        reading = asyncio.gather(*map(read, bodies))
        count = 0
        while not reading.done():
            await asyncio.sleep(0)
            count += 1
        await reading
        return count

    assert asyncio.run(turns()) > 10
    assert done == [0, 1, 2]
