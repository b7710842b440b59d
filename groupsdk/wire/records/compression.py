"""Compress and decompress the records of a batch, with a bound on the decompressed size."""

import gzip
import struct
import zlib
from enum import IntEnum
from importlib import import_module
from typing import Any, Final

from groupsdk.errors import DecodeError


MAX_DECOMPRESSED: Final = 64 * 1024 * 1024
"""How many bytes the records of one batch may have when decompressed, unless the caller says otherwise."""

_GZIP_LEVEL: Final = 6
"""As Kafka's: the offsets of many partitions take ten times as long with Python's 9, and get no smaller."""
_FIRST_OUTPUT: Final = 64 * 1024
_MAX_RATIO_HINT: Final = 256
"""How far a frame is believed that says how long it gets: a few bytes must not reserve megabytes."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(
    ">ii", 1, 1
)  # version, least compatible version
_XERIAL_BLOCK: Final = 32 * 1024

# magic; version 1 with independent blocks, the only kind that Java reads; 64 KiB a block; the sum of the two
_LZ4_HEADER: Final = bytes.fromhex("04224d18 60 40 82")
_LZ4_BLOCK: Final = 64 * 1024
_LZ4_PLAIN: Final = 0x80000000
_LZ4_END: Final = bytes(4)

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_HEADER: Final = 18
"""The bytes of the longest header of a frame."""

_INT32: Final = struct.Struct(">i")
_UINT32_LITTLE: Final = struct.Struct("<I")


class TooLargeError(DecodeError):
    """The decompressed records of a batch exceed the bound."""


class Compression(IntEnum):
    """Name the compressions of a batch by their number in its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(compression: int, data: bytes) -> bytes:
    """Compress the encoded records of a batch, `data`.

    Raises ValueError if `compression` is not a `Compression`.
    """
    match Compression(compression):
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return gzip.compress(data, _GZIP_LEVEL, mtime=0)
        case Compression.SNAPPY:
            return _compress_snappy(data)
        case Compression.LZ4:
            return _compress_lz4(data)
        case Compression.ZSTD:
            return bytes(_codec("zstd").compress(data))


def decompress(compression: int, data: bytes, max_bytes: int = MAX_DECOMPRESSED) -> bytes:
    """Decompress the records of a batch, `data`.

    Raises:
        DecodeError: `data` is corrupt, `compression` is not a `Compression`, or the result is larger than `max_bytes`.
    """
    match compression:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return _decompress_gzip(data, max_bytes)
        case Compression.SNAPPY:
            return _decompress_snappy(data, max_bytes)
        case Compression.LZ4:
            return _decompress_growing("lz4", data, max_bytes)
        case Compression.ZSTD:
            return _decompress_growing("zstd", data, max_bytes)
        case _:
            raise DecodeError(
                f"a record batch has the unknown compression {compression}; it must be from 0 to 4"
            )


def _codec(name: str) -> Any:
    # only where something is compressed at all, which the broker's own batches are not
    return getattr(import_module("cramjam"), name)


def _compress_snappy(data: bytes) -> bytes:
    """Frame Snappy as Java's snappy library does (org.xerial.snappy)."""
    snappy = _codec("snappy")
    out = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        out += (_INT32.pack(len(block)), block)
    return b"".join(out)


def _compress_lz4(data: bytes) -> bytes:
    """Frame LZ4 with independent blocks.

    The codec's own frames chain their blocks, which Java's reader refuses (KafkaLZ4BlockInputStream).
    """
    lz4 = _codec("lz4")
    out = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK):
        plain = data[start : start + _LZ4_BLOCK]
        block = bytes(lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += (_UINT32_LITTLE.pack(len(block)), block)
        else:
            out += (_UINT32_LITTLE.pack(len(plain) | _LZ4_PLAIN), plain)
    out.append(_LZ4_END)
    return b"".join(out)


def _decompress_gzip(data: bytes, max_bytes: int) -> bytes:
    reader = zlib.decompressobj(wbits=31)
    try:
        plain = reader.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise DecodeError(f"{len(data)} bytes are not compressed with gzip: {error}") from error
    if len(plain) > max_bytes:
        raise _too_much("gzip", len(data), max_bytes)
    if not reader.eof:
        raise DecodeError(f"the gzip data is truncated at {len(data)} bytes")
    return plain


def _decompress_snappy(data: bytes, max_bytes: int) -> bytes:
    snappy = _codec("snappy")
    if not data.startswith(_XERIAL_MAGIC):
        return _snappy_block(snappy, data, 0, max_bytes)
    out = []
    position, done = len(_XERIAL_HEADER), 0
    while position < len(data):
        if len(data) - position < _INT32.size:
            raise DecodeError(f"the Snappy data is truncated at {len(data)} bytes")
        (size,) = _INT32.unpack_from(data, position)
        position += _INT32.size
        if not 0 <= size <= len(data) - position:
            raise DecodeError(
                f"a Snappy block of {size} bytes where {len(data) - position} are left"
            )
        out.append(_snappy_block(snappy, data[position : position + size], done, max_bytes))
        done += len(out[-1])
        position += size
    return b"".join(out)


def _snappy_block(snappy: Any, block: bytes, done: int, max_bytes: int) -> bytes:
    # the block itself says first how long it gets
    try:
        size = snappy.decompress_raw_len(block)
        if done + size > max_bytes:
            raise _too_much("Snappy", len(block), max_bytes)
        return bytes(snappy.decompress_raw(block))
    except _codec("DecompressionError") as error:
        raise DecodeError(f"{len(block)} bytes are not compressed with Snappy: {error}") from error


def _decompress_growing(name: str, data: bytes, max_bytes: int) -> bytes:
    """Decompress into an output that grows up to the bound: neither format need say how long it gets."""
    codec, failure = _codec(name), _codec("DecompressionError")
    hint = _zstd_content_size(data) if name == "zstd" else 0
    hint = min(hint, _MAX_RATIO_HINT * len(data)) or 4 * len(data)
    size = min(max(_FIRST_OUTPUT, hint), max_bytes)
    while True:
        output = bytearray(size)
        try:
            written = codec.decompress_into(data, output)
        except failure as error:
            if not _is_full(error):
                raise DecodeError(
                    f"{len(data)} bytes are not compressed with {name}: {error}"
                ) from error
            if size >= max_bytes:
                raise _too_much(name, len(data), max_bytes) from None
            size = min(4 * size, max_bytes)
        else:
            return bytes(memoryview(output)[:written])


def _zstd_content_size(data: bytes) -> int:
    """Return how many bytes the first frame says that it becomes (RFC 8878, 3.1.1.1.4); 0 where it does not.

    Only a hint for the first output: a frame may lie, and another one may follow.
    """
    if len(data) < _ZSTD_HEADER or not data.startswith(_ZSTD_MAGIC):
        return 0
    descriptor = data[4]
    is_single_segment = descriptor >> 5 & 1
    position = 5 + (not is_single_segment) + (0, 1, 2, 4)[descriptor & 3]
    width = (is_single_segment, 2, 4, 8)[descriptor >> 6]
    size = int.from_bytes(data[position : position + width], "little")
    return size + 256 if width == 2 else size


def _is_full(error: Exception) -> bool:
    # what Rust says where an output takes no more; there is no type of its own for it
    return "whole buffer" in str(error)


def _too_much(name: str, size: int, max_bytes: int) -> TooLargeError:
    return TooLargeError(
        f"{size} bytes compressed with {name} become more than {max_bytes} bytes, the limit"
    )
