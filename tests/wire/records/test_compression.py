"""Tests the compressions of batches: back and forth, other writers' frames, bombs and garbage."""

import contextlib
import gzip
import struct

import cramjam
import pytest
from hypothesis import given, strategies as st
from pytest_mock import MockerFixture

from groupsdk.errors import DecodeError
from groupsdk.wire.records.compression import Compression, compress, decompress


CODECS = [each for each in Compression if each is not Compression.NONE]
TEXT = b"a man a plan a canal " * 20_000
"""Several blocks of every format."""


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(range(256)) * 300], ids=len)
def test_compressed_data_is_decompressed_to_itself(codec: Compression, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


@given(st.sampled_from(CODECS), st.binary(max_size=300), st.integers(1, 2000))
def test_any_bytes_come_back(codec: Compression, data: bytes, times: int) -> None:
    plain = data * times

    assert decompress(codec, compress(codec, plain)) == plain


@pytest.mark.parametrize("codec", CODECS)
def test_text_becomes_smaller(codec: Compression) -> None:
    assert len(compress(codec, TEXT)) < len(TEXT) // 10


@pytest.mark.parametrize("codec", CODECS)
def test_decompressed_size_is_bounded(codec: Compression) -> None:
    packed = compress(codec, TEXT)

    assert decompress(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(DecodeError, match=f"more than {len(TEXT) - 1} bytes, the limit"):
        decompress(codec, packed, len(TEXT) - 1)
    with pytest.raises(DecodeError, match="more than 10 bytes, the limit"):
        decompress(codec, packed, 10)


def test_snappy_is_framed_as_java_frames_it() -> None:
    packed = compress(Compression.SNAPPY, TEXT)

    assert packed[:16] == b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    (size,) = struct.unpack_from(">i", packed, 16)
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + size])) == TEXT[: 32 * 1024]


def test_snappy_without_a_frame_is_read() -> None:
    # librdkafka writes it so
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


def test_lz4_blocks_are_independent_as_java_wants_them() -> None:
    packed = compress(Compression.LZ4, TEXT)

    assert packed[:7].hex() == "04224d18604082"
    assert packed[-4:] == bytes(4)
    (size,) = struct.unpack_from("<I", packed, 7)
    block = cramjam.lz4.decompress_block(packed[11 : 11 + size], output_len=64 * 1024)
    assert bytes(block) == TEXT[: 64 * 1024]


@pytest.mark.parametrize("codec", [Compression.LZ4, Compression.ZSTD])
def test_other_writers_frames_are_read(codec: Compression) -> None:
    module = getattr(cramjam, codec.name.lower())

    assert decompress(codec, bytes(module.compress(TEXT))) == TEXT


def test_incompressible_data_is_a_plain_lz4_block() -> None:
    data = bytes(range(256))

    assert compress(Compression.LZ4, data)[7:-4] == struct.pack("<I", 256 | 1 << 31) + data


def test_gzip_of_several_levels_is_read() -> None:
    assert decompress(Compression.GZIP, gzip.compress(TEXT, 1)) == TEXT


def test_a_length_that_snappy_promises_is_not_believed() -> None:
    # a block that says of itself that it becomes 4 GiB
    with pytest.raises(DecodeError, match="more than 1000 bytes, the limit"):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\xff\x0fabc", 1000)


def test_a_content_size_of_zstd_saves_tries_and_is_not_believed(mocker: MockerFixture) -> None:
    text = b"".join(b"%d: a man, a plan, a canal. " % number for number in range(20_000))
    packed = compress(Compression.ZSTD, text)
    assert len(packed) * 4 < len(text)
    outputs = mocker.spy(cramjam.zstd, "decompress_into")
    assert decompress(Compression.ZSTD, packed) == text
    assert outputs.call_count == 1
    at = packed.index(struct.pack("<I", len(text)))
    for lie in (1, len(text) - 1, 2**32 - 1):
        lying = packed[:at] + struct.pack("<I", lie) + packed[at + 4 :]
        outputs.reset_mock()
        with contextlib.suppress(DecodeError):
            assert decompress(Compression.ZSTD, lying) == text
        reserved = max(len(call.args[1]) for call in outputs.call_args_list)
        assert reserved <= max(64 * 1024, 256 * len(lying), 4 * len(text)), lie
    # the shortest frame of each kind, and what ends within its header
    for frame in (bytes(cramjam.zstd.compress(b"")), bytes(cramjam.zstd.compress(b"x" * 300))):
        assert decompress(Compression.ZSTD, frame) in (b"", b"x" * 300)
        for end in range(len(frame)):
            with contextlib.suppress(DecodeError):
                assert decompress(Compression.ZSTD, frame[:end]) == b""


@pytest.mark.parametrize("size", [-1, 6, 2**31 - 1])
def test_a_snappy_block_over_the_end_is_refused(size: int) -> None:
    packed = compress(Compression.SNAPPY, b"")

    with pytest.raises(DecodeError, match="a Snappy block of"):
        decompress(Compression.SNAPPY, packed + struct.pack(">i", size) + b"12345")
    with pytest.raises(DecodeError, match="the Snappy data is truncated"):
        decompress(Compression.SNAPPY, packed + b"123")


@pytest.mark.parametrize("codec", CODECS)
def test_a_cut_is_refused(codec: Compression) -> None:
    with pytest.raises(DecodeError):
        decompress(codec, compress(codec, TEXT)[:-9])


@given(st.sampled_from(CODECS), st.binary(max_size=60), st.data())
def test_garbage_raises_nothing_else(
    codec: Compression, garbage: bytes, data: st.DataObject
) -> None:
    packed = bytearray(compress(codec, b"some text, some text"))
    at = data.draw(st.integers(0, len(packed)))
    for candidate in (
        garbage,
        bytes(packed[:at]) + garbage,
        bytes(packed[:at] + garbage + packed[at:]),
    ):
        with contextlib.suppress(DecodeError):
            assert len(decompress(codec, candidate, 10_000)) <= 10_000


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_other_compressions_are_refused(codec: int) -> None:
    with pytest.raises(
        DecodeError, match=f"the unknown compression {codec}; it must be from 0 to 4"
    ):
        decompress(codec, b"")
    with pytest.raises(ValueError, match=f"{codec} is not a valid Compression"):
        compress(codec, b"")


def test_gzip_is_at_the_level_of_kafkas_brokers() -> None:
    # the header says 2 for the slowest level, which Python's gzip would use
    assert compress(Compression.GZIP, b"v" * 100)[8] == 0
