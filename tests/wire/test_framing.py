"""Tests the cutting of a stream into frames."""

import pytest
from hypothesis import given, strategies as st
from typing_extensions import override

from groupsdk.errors import EncodeError, FrameError
from groupsdk.wire.api import FrameDecoder, frame


def test_a_frame_is_its_length_and_its_payload() -> None:
    assert frame(b"abc") == b"\0\0\0\3abc"
    assert frame(b"") == b"\0\0\0\0"
    assert frame(b"a", b"", b"bc") == b"\0\0\0\3abc"


def test_a_payload_may_not_outgrow_an_int32() -> None:
    class Huge(bytes):
        @override
        def __len__(self) -> int:
            return 1 << 31

    with pytest.raises(EncodeError, match="2147483648 bytes does not fit a frame"):
        frame(Huge())


@given(st.lists(st.binary(max_size=20), max_size=8), st.data())
def test_frames_come_out_however_the_stream_is_cut(
    payloads: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(map(frame, payloads))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=10).map(sorted))
    decoder = FrameDecoder(20)

    found = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += decoder.feed(stream[start:stop])

    assert found == payloads
    assert decoder._buffer == b""


def test_single_bytes_do() -> None:
    decoder = FrameDecoder(1 << 20)
    stream = frame(b"one") + frame(b"") + frame(b"three")

    found = [payload for byte in stream for payload in decoder.feed(bytes([byte]))]

    assert found == [b"one", b"", b"three"]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_may_be_fed(kind: type) -> None:
    (payload,) = FrameDecoder(1 << 20).feed(kind(frame(b"abc")))

    assert payload == b"abc"
    assert type(payload) is bytes


def test_the_rest_of_a_frame_is_kept_and_nothing_else() -> None:
    decoder = FrameDecoder(1 << 20)

    assert decoder.feed(frame(b"x" * 1000) + frame(b"y" * 100)[:50]) == [b"x" * 1000]
    assert len(decoder._buffer) == 50


def test_an_oversized_frame_is_refused_as_soon_as_its_length_is_known() -> None:
    decoder = FrameDecoder(10)
    assert decoder.feed(frame(b"x" * 10)) == [b"x" * 10]

    with pytest.raises(FrameError, match="a frame of 11 bytes is over the limit of 10"):
        decoder.feed(b"\0\0\0\x0b")

    assert decoder._buffer == b""


def test_negative_length_of_a_frame_is_refused() -> None:
    with pytest.raises(FrameError, match="negative length -2; its bytes start with ff ff ff fe 00"):
        FrameDecoder(1 << 20).feed(b"\xff\xff\xff\xfe\0")


def test_a_lost_stream_stays_lost() -> None:
    decoder = FrameDecoder(1 << 20)
    with pytest.raises(FrameError):
        decoder.feed(b"\xff\xff\xff\xff")

    with pytest.raises(FrameError, match="negative length -1"):
        decoder.feed(frame(b"fine"))

    assert decoder._buffer == b""


@pytest.mark.parametrize(
    "start", ["15 03 03 00 02 02 46", "15 03 01 00", "16 03 03 00 7a 02", "14 03 03 00 01 01"]
)
def test_tls_is_recognized(start: str) -> None:
    with pytest.raises(FrameError, match=r"speaks TLS .* security\.protocol to SSL or SASL_SSL"):
        FrameDecoder(1 << 20).feed(bytes.fromhex(start))


def test_http_is_recognized() -> None:
    with pytest.raises(FrameError, match="speaks HTTP on this port"):
        FrameDecoder(1 << 20).feed(b"HTTP/1.1 400 Bad Request\r\n")
