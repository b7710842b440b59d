"""Makes bytes that no broker wants: real requests of all APIs, and what can be wrong with them."""

import random
import struct
from collections.abc import Callable, Container, Iterator
from functools import cache
from typing import Final

from groupsdk.broker.server.apis import APIS
from groupsdk.errors import EncodeError
from groupsdk.wire.api import encode_request, request_class
from tests.conformance.cases import FILLINGS


_HUGE_COUNT: Final = b"\x7f\xff\xff\xff"
_HUGE_UVARINT: Final = b"\xff\xff\xff\xff\x07"


@cache
def requests() -> list[bytes]:
    """Builds one well-formed request or more for every API and version that is served."""
    made: list[bytes] = []
    for key, served in APIS.items():
        for version in range(served.min_version, served.max_version + 1):
            for filling in ("typical", "nulls", "many"):
                message = FILLINGS[filling]().struct(request_class(key), version)
                try:
                    made.append(encode_request(message, version, len(made), "hostile"))
                except EncodeError:
                    # the filling has a value that this version cannot carry
                    continue
    return made


def framed(payload: bytes) -> bytes:
    """Puts the right length before a payload."""
    return struct.pack(">i", len(payload)) + payload


def header(key: int, version: int, *, flexible: bool = False) -> bytes:
    """Builds the header of a request without a client id."""
    return struct.pack(">hhih", key, version, 7, -1) + (b"\0" if flexible else b"")


def _flip(frame: bytearray, chance: random.Random) -> bytes:
    for _ in range(chance.randint(1, 8)):
        frame[chance.randrange(len(frame))] ^= 1 << chance.randrange(8)
    return bytes(frame)


def _flip_body(frame: bytearray, chance: random.Random) -> bytes:
    for _ in range(chance.randint(1, 4)):
        frame[chance.randrange(min(12, len(frame) - 1), len(frame))] = chance.randrange(256)
    return bytes(frame)


def _cut(frame: bytearray, chance: random.Random) -> bytes:
    return bytes(frame[: chance.randrange(len(frame))])


def _cut_with_length(frame: bytearray, chance: random.Random) -> bytes:
    return framed(bytes(frame[4 : 4 + chance.randrange(len(frame) - 4)]))


def _longer(frame: bytearray, chance: random.Random) -> bytes:
    return framed(bytes(frame[4:]) + chance.randbytes(chance.randint(1, 64)))


def _wrong_length(frame: bytearray, chance: random.Random) -> bytes:
    length = chance.choice([-(2**31), -1, 0, 1, 3, 2**20, 100 * 2**20 + 1, 2**31 - 1])
    return struct.pack(">i", length) + bytes(frame[4:])


def _huge_count(frame: bytearray, chance: random.Random) -> bytes:
    at = chance.randrange(min(12, len(frame) - 1), len(frame))
    huge = chance.choice([_HUGE_COUNT, _HUGE_UVARINT, b"\xff\xff\xff\xfe", b"\xff" * 9])
    return framed(bytes(frame[4:at]) + huge + bytes(frame[at + len(huge) :]))


def _many_tags(frame: bytearray, chance: random.Random) -> bytes:
    tags = b"".join(bytes((tag, 0)) for tag in range(100))
    return framed(bytes(frame[4:-1]) + chance.choice([b"\x64", _HUGE_UVARINT]) + tags)


def _repeated(frame: bytearray, chance: random.Random) -> bytes:
    first = chance.randrange(4, len(frame))
    last = chance.randrange(first, len(frame)) + 1
    part = bytes(frame[first:last])
    return framed(bytes(frame[4:last]) + part * chance.randint(1, 20) + bytes(frame[last:]))


def _noise(frame: bytearray, chance: random.Random) -> bytes:
    return chance.randbytes(len(frame))


def _framed_noise(frame: bytearray, chance: random.Random) -> bytes:
    return bytes(frame[:12]) + chance.randbytes(len(frame) - 12)


MUTATIONS: Final[dict[str, Callable[[bytearray, random.Random], bytes]]] = {
    "flipped bits": _flip,
    "other bytes in the body": _flip_body,
    "cut off": _cut,
    "cut off, with the right length": _cut_with_length,
    "too long": _longer,
    "wrong length": _wrong_length,
    "huge count": _huge_count,
    "many tags": _many_tags,
    "a part repeated": _repeated,
    "noise": _noise,
    "noise behind a header": _framed_noise,
}
"""What can be wrong with a request, by its name."""


def mutated(
    frames: list[bytes], seed: int, count: int, only: Container[str] | None = None
) -> Iterator[bytes]:
    """Gives damaged requests, the same ones for a seed; damaged in all ways, or in those that are named."""
    chance = random.Random(seed)
    ways = [way for name, way in MUTATIONS.items() if only is None or name in only]
    for _ in range(count):
        yield chance.choice(ways)(bytearray(chance.choice(frames)), chance)


def _many_topics() -> bytes:
    return header(3, 1) + struct.pack(">i", 50_000) + b"\0\0" * 50_000


def _tags(count: int) -> bytes:
    fields = b"".join(_uvarint(tag) + b"\0" for tag in range(count))
    return header(18, 3) + _uvarint(count) + fields + b"\x02a\x02b\0"


def _uvarint(value: int) -> bytes:
    made = b""
    while value > 127:
        made += bytes((value & 127 | 128,))
        value >>= 7
    return made + bytes((value,))


CLASSES: Final[dict[str, bytes]] = {
    "negative length": b"\xff\xff\xff\xff",
    "length of two gigabytes": b"\x7f\xff\xff\xff",
    "length over socket.request.max.bytes": struct.pack(">i", 104_857_601),
    "empty request": struct.pack(">i", 0),
    "one byte": framed(b"\0"),
    "half a header": framed(b"\0\x12\0\0"),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"\0" * 500,
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "unknown API": framed(header(9999, 0)),
    "negative API": framed(header(-1, 0)),
    "unknown version": framed(header(12, 99)),
    "negative version": framed(header(12, -1)),
    "ApiVersions in an unknown version": framed(header(18, 99, flexible=True)),
    "ApiVersions in a negative version": framed(header(18, -1)),
    "client id behind the end": framed(struct.pack(">hhih", 18, 0, 1, 5)),
    "client id of length -2": framed(struct.pack(">hhih", 18, 0, 1, -2)),
    "client id that is no UTF-8": framed(struct.pack(">hhih", 18, 0, 1, 2) + b"\xff\xfe"),
    "no body": framed(header(12, 0)),
    "bytes behind the body": framed(header(18, 0) + b"xyz"),
    "group id of length -1": framed(header(12, 0) + b"\xff\xff" + b"\0" * 6),
    "group id behind the end": framed(header(12, 0) + b"\x7f\xff" + b"a" * 10),
    "text that is no UTF-8": framed(header(15, 0) + b"\0\0\0\1\0\2\xff\xfe"),
    "array of 2**31 - 1": framed(header(3, 1) + _HUGE_COUNT),
    "array of -1 where null is not allowed": framed(header(15, 0) + b"\xff" * 4),
    "array of -2": framed(header(3, 1) + b"\xff\xff\xff\xfe"),
    "compact array of 2**31 - 1": framed(header(3, 12, flexible=True) + _HUGE_UVARINT),
    "varint of six bytes": framed(header(3, 12, flexible=True) + b"\xff" * 6 + b"\0"),
    "tags that are not there": framed(header(18, 3) + b"\x05"),
    "tag counts that cannot be": framed(header(18, 3) + _HUGE_UVARINT),
    "tag of a size behind the end": framed(header(18, 3) + b"\x01\x05\xff\x01" + b"\x02a\x02b\0"),
    "tags twice": framed(header(18, 3) + b"\x02\x05\0\x05\0" + b"\x02a\x02b\0"),
    "10,000 unknown tags in a header": framed(_tags(10_000)),
    "50,000 empty topic names": framed(_many_topics()),
    "Produce without records": framed(
        header(0, 3) + b"\xff\xff\xff\xff\0\0\x03\xe8\0\0\0\1\0\1t\0\0\0\1\0\0\0\0" + b"\xff" * 4
    ),
    "Produce with an old format": framed(
        header(0, 3)
        + b"\xff\xff\xff\xff\0\0\x03\xe8\0\0\0\1\0\1t\0\0\0\1\0\0\0\0"
        + struct.pack(">i", 80)
        + b"\0" * 80
    ),
    "Produce with acks=7": framed(
        header(0, 3) + b"\xff\xff\0\7\0\0\x03\xe8\0\0\0\1\0\1t\0\0\0\1\0\0\0\0" + b"\xff" * 4
    ),
    "Produce with acks=0 that fails": framed(
        header(0, 3) + b"\xff\xff\0\0\0\0\x03\xe8\0\0\0\1\0\1?\0\0\0\1\0\0\0\0" + b"\xff" * 4
    ),
}
"""Bytes of every class of wrongness, for a comparison with Kafka; the last ones are requests in order."""
