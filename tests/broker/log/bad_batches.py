"""Batches that no producer builds: what a header or a record may say that is not so."""

import struct
import zlib
from collections.abc import Callable
from typing import Final

from groupsdk.wire.records.batch import CRC_START, HEADER_SIZE, crc32c
from groupsdk.wire.records.compression import compress
from groupsdk.wire.records.record import Record, build_batch
from groupsdk.wire.records.varint import varint


ATTRIBUTES: Final = 21
LAST_DELTA: Final = 23
BASE_TIMESTAMP: Final = 27
MAX_TIMESTAMP: Final = 35
PRODUCER_ID: Final = 43
COUNT: Final = 57


def sealed(data: bytes) -> bytes:
    """Gives a batch the length and the checksum that it has to have."""
    found = bytearray(data)
    struct.pack_into(">i", found, 8, len(found) - 12)
    struct.pack_into(">I", found, CRC_START - 4, crc32c(bytes(found[CRC_START:])))
    return bytes(found)


def patched(data: bytes, *changes: tuple[int, str, int]) -> bytes:
    """Changes fields of a batch: position, layout, value."""
    found = bytearray(data)
    for position, layout, value in changes:
        struct.pack_into(layout, found, position, value)
    return sealed(bytes(found))


def with_body(body: bytes, count: int, now_ms: int, codec: int = 0) -> bytes:
    """Builds a batch that counts so many records, with any bytes as its records."""
    head = build_batch([Record(0, now_ms, b"k", b"v")])[:HEADER_SIZE]
    changes = ((ATTRIBUTES, ">h", codec), (LAST_DELTA, ">i", count - 1), (COUNT, ">i", count))
    return patched(head + compress(codec, body), *changes)


def record(
    delta: int,
    *,
    time: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: bytes = b"\0",
    key_size: int | None = None,
    size: int | None = None,
) -> bytes:
    """Encodes one record, with any sizes in it."""
    sized = -1 if key is None else len(key)
    body = b"\0" + varint(time) + varint(delta)
    body += varint(sized if key_size is None else key_size) + (key or b"")
    body += varint(-1 if value is None else len(value)) + (value or b"") + headers
    return varint(len(body) if size is None else size) + body


def good(now_ms: int, codec: int = 0, keys: tuple[bytes | None, ...] = (b"a", b"b", b"c")) -> bytes:
    """Builds a batch as a producer does."""
    records = [Record(n, now_ms + n, key, b"v" * 20) for n, key in enumerate(keys)]
    return build_batch(records, compression=codec)


def _plain(codec: int) -> Callable[[int], bytes]:
    def build(now_ms: int) -> bytes:
        return patched(good(now_ms), (ATTRIBUTES, ">h", codec))

    return build


def _of(
    *records: bytes, count: int = 0, codec: int = 0, behind: bytes = b""
) -> Callable[[int], bytes]:
    def build(now_ms: int) -> bytes:
        return with_body(b"".join(records) + behind, count or len(records), now_ms, codec)

    return build


def _changed(*changes: tuple[int, str, int], codec: int = 0) -> Callable[[int], bytes]:
    def build(now_ms: int) -> bytes:
        return patched(good(now_ms, codec), *changes)

    return build


def _late(codec: int, times: tuple[int, ...]) -> Callable[[int], bytes]:
    def build(now_ms: int) -> bytes:
        records = [Record(n, now_ms + time, b"k", b"v") for n, time in enumerate(times)]
        return build_batch(records, compression=codec)

    return build


def _keys(codec: int, *keys: bytes | None) -> Callable[[int], bytes]:
    def build(now_ms: int) -> bytes:
        return good(now_ms, codec, keys)

    return build


def _cut_gzip(now_ms: int) -> bytes:
    whole = good(now_ms, 1)
    return sealed(whole[:-9])


def _early_gzip(now_ms: int) -> bytes:
    packer = zlib.compressobj(wbits=31)
    body = packer.compress(record(0)) + packer.flush()
    plain = with_body(b"", 3, now_ms)
    return patched(plain + body, (ATTRIBUTES, ">h", 1))


_HOUR_MS: Final = 3_600_000

BAD: Final[dict[str, Callable[[int], bytes]]] = {
    "good": good,
    **{f"good, codec {codec}": _changed(codec=codec) for codec in range(1, 5)},
    **{f"codec {codec} on plain bytes": _plain(codec) for codec in range(1, 8)},
    "garbage": _of(b"\x9c\x01\xff" * 30, count=3),
    "garbage, compressed": _of(b"\x9c\x01\xff" * 30, count=3, codec=4),
    "zeros": _of(bytes(60), count=3),
    "one record too few": _of(record(0), record(1), count=3),
    "one record too many": _of(record(0), record(1), record(2), count=2),
    "one record too few, compressed": _of(record(0), record(1), count=3, codec=1),
    "one record too many, compressed": _of(record(0), record(1), record(2), count=2, codec=1),
    "bytes behind the last": _of(record(0), behind=b"\0"),
    "bytes behind the last, compressed": _of(record(0), behind=b"\0", codec=2),
    "longer than its batch": _of(record(0), record(1, size=100_000)),
    "longer than its batch, compressed": _of(record(0), record(1, size=100_000), codec=3),
    "longer than it is": _of(record(0, size=10), record(1)),
    "negative length": _of(record(0), record(1, size=-5)),
    "key behind the end": _of(record(0), record(1, key_size=5_000)),
    "key behind the end, compressed": _of(record(0), record(1, key_size=5_000), codec=1),
    "negative count of headers": _of(record(0, headers=varint(-1))),
    "more headers than bytes": _of(record(0, headers=varint(5_000))),
    "null name of a header": _of(record(0, headers=varint(1) + varint(-1) + varint(-1))),
    "name of a header that is no UTF-8": _of(record(0, headers=b"\x02\x02\xff\x02a")),
    "counts are not the deltas": _changed((COUNT, ">i", 2)),
    "no records": _changed((COUNT, ">i", 0), (LAST_DELTA, ">i", 0)),
    "control": _changed((ATTRIBUTES, ">h", 0x20)),
    "producer without sequence": _changed((PRODUCER_ID, ">q", 7), (PRODUCER_ID + 8, ">h", 0)),
    "its max timestamp is too low": _changed((MAX_TIMESTAMP, ">q", 1_000)),
    "its max timestamp is too high": _changed((MAX_TIMESTAMP, ">q", 2**62)),
    "its max timestamp is too high, compressed": _changed((MAX_TIMESTAMP, ">q", 2**62), codec=4),
    "log append time": _changed((ATTRIBUTES, ">h", 8)),
    "log append time, compressed": _changed((ATTRIBUTES, ">h", 9), codec=1),
    "one record of tomorrow": _late(0, (0, 24 * _HOUR_MS, 0)),
    "one record of tomorrow, compressed": _late(4, (0, 24 * _HOUR_MS, 0)),
    "two records of tomorrow": _late(0, (24 * _HOUR_MS, 0, 25 * _HOUR_MS)),
    "records going back": _late(0, (0, -10, -5)),
    "before 1970": _late(0, (-(2**41), -(2**41) + 5)),
    "times beyond 64 bits": _of(record(0, time=2**62), record(1, time=2**63 - 1)),
    "cut gzip": _cut_gzip,
    "gzip of fewer": _early_gzip,
    "offset delta again": _of(record(0), record(0)),
    "offset delta again, compressed": _of(record(0), record(0), codec=1),
    "null of length -2": _of(record(0, key=None, key_size=-2)),
    "no key": _keys(0, b"a", None, b"c", None),
    "no key, compressed": _keys(4, b"a", None, b"c", None),
    "base offset 5": lambda now_ms: patched(good(now_ms), (0, ">q", 5)),
    "transactional without producer": _changed((ATTRIBUTES, ">h", 0x10)),
    "delete horizon": _changed((ATTRIBUTES, ">h", 0x40)),
    "wrong checksum": lambda now_ms: good(now_ms)[:-1] + b"x",
    "cut": lambda now_ms: good(now_ms)[:-1],
    "two": lambda now_ms: good(now_ms) * 2,
    "bytes behind": lambda now_ms: good(now_ms) + b"\0",
    "nothing": lambda now_ms: b"",
    "only a header's beginning": lambda now_ms: good(now_ms)[:30],
    "a length that cannot be": lambda now_ms: good(now_ms)[:8] + b"\0\0\0\1" + good(now_ms)[12:],
}
"""What a producer may send, good and bad, by a name; each is built from the time."""
