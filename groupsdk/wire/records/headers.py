"""Read and write the headers of one record."""

from collections.abc import Sequence
from typing import Final

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.wire.records.varint import NULL, read_length, varint


Header = tuple[str, bytes | None]
MAX_HEADERS: Final = 50_000
"""How many headers a record may have that is appended to a log; Kafka has no bound."""


def write_headers(headers: Sequence[Header]) -> bytes:
    """Encode the headers of a record, their count first; names that `read_headers` gave get their own bytes.

    Raises EncodeError if a name has a character that UTF-8 cannot carry.
    """
    out = [varint(len(headers))]
    for name, value in headers:
        try:
            encoded = name.encode(errors="surrogateescape")
        except UnicodeEncodeError as error:
            raise EncodeError(
                "the name of a record's header has a character that UTF-8 cannot carry"
            ) from error
        out += (varint(len(encoded)), encoded)
        out += (NULL,) if value is None else (varint(len(value)), value)
    return b"".join(out)


def read_headers(data: bytes, position: int, stop: int) -> tuple[tuple[Header, ...], int]:
    """Decode the headers at `position` of a record that stops at `stop`; gives the position behind them.

    Brokers take any bytes as a name; those that are not UTF-8 become lone surrogates (`surrogateescape`).

    Raises:
        DecodeError: a count or a length runs over the record's end.
        IndexError: the data ends within them.
    """
    count, position = read_length(data, position)
    if count is None or 2 * count > stop - position:
        raise DecodeError(f"a record counts {count} headers where {stop - position} bytes are left")
    headers: list[Header] = []
    for _ in range(count):
        size, position = read_length(data, position)
        if size is None or size > stop - position:
            raise DecodeError(f"a header's name runs over its record's end at byte {stop}")
        name = data[position : position + size].decode(errors="surrogateescape")
        position += size
        size, position = read_length(data, position)
        if size is None:
            headers.append((name, None))
            continue
        if size > stop - position:
            raise DecodeError(f"a header's value runs over its record's end at byte {stop}")
        headers.append((name, data[position : position + size]))
        position += size
    return tuple(headers), position


def skip_headers(data: bytes, position: int, stop: int) -> int:
    """Check the headers at `position` of a record that stops at `stop`; returns the position behind them.

    Only lengths are looked at: a name may be any bytes, as with Kafka.

    Raises:
        DecodeError: a count or a length runs over the record's end, or there are more than `MAX_HEADERS`.
        IndexError: the data ends within them.
    """
    count, position = read_length(data, position)
    if count is None or 2 * count > stop - position:
        raise DecodeError(f"a record counts {count} headers where {stop - position} bytes are left")
    if count > MAX_HEADERS:
        raise DecodeError(f"a record has {count} headers; at most {MAX_HEADERS} are allowed")
    for _ in range(count):
        size, position = read_length(data, position)
        if size is None or size > stop - position:
            raise DecodeError(f"a header's name runs over its record's end at byte {stop}")
        size, position = read_length(data, position + size)
        if size is not None:
            if size > stop - position:
                raise DecodeError(f"a header's value runs over its record's end at byte {stop}")
            position += size
    return position
