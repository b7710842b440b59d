"""Cut a stream of bytes into frames: an int32 length, then that many bytes."""

import struct

from groupsdk.errors import EncodeError, FrameError
from groupsdk.limits import MAX_INT32


_LENGTH = struct.Struct(">i")
_TLS_RECORDS = (0x14, 0x15, 0x16, 0x17)  # change cipher spec, alert, handshake, application data


def frame(*parts: bytes) -> bytes:
    """Put the length in front of a payload, whose parts are copied once, as it may be megabytes.

    Raises:
        EncodeError: the payload is larger than an int32 can tell.
    """
    size = sum(map(len, parts))
    if size > MAX_INT32:
        raise EncodeError(f"a message of {size} bytes does not fit a frame")
    return b"".join((_LENGTH.pack(size), *parts))


class FrameDecoder:
    """Collect what a socket delivers and hand out complete frames.

    Keeps at most one incomplete frame, whose length it checks as soon as it is known, and takes time in
    proportion to the bytes. For one thread at a time. After a FrameError the stream is lost:
    close the connection.
    """

    __slots__ = ("_buffer", "_failure", "_max_frame_bytes", "_wanted")

    def __init__(self, max_frame_bytes: int) -> None:
        """Create a decoder that refuses frames of more than `max_frame_bytes`, prefix not counted."""
        self._max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()
        self._wanted = _LENGTH.size  # bytes that the buffer needs before there is anything to do
        self._failure: str | None = None

    @property
    def buffered_bytes(self) -> int:
        """Count the bytes that wait for the rest of their frame."""
        return len(self._buffer)

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """Take the next bytes of the stream; return the payloads of the frames that are now complete.

        Raises:
            FrameError: a length is negative or over the limit; complete frames before it in the same
                `data` are lost with the stream.
        """
        if self._failure is not None:
            raise FrameError(self._failure)
        buffer = self._buffer
        buffer += data
        frames: list[bytes] = []
        position = 0
        while len(buffer) - position >= self._wanted:
            length = self._length_at(position)
            stop = position + _LENGTH.size + length
            if stop > len(buffer):
                self._wanted = stop - position
                break
            with memoryview(buffer) as view:
                frames.append(bytes(view[position + _LENGTH.size : stop]))
            position = stop
            self._wanted = _LENGTH.size
        if position:
            del buffer[:position]
        return frames

    def _length_at(self, position: int) -> int:
        (length,) = _LENGTH.unpack_from(self._buffer, position)
        if 0 <= length <= self._max_frame_bytes:
            return int(length)
        self._failure = _explain(
            bytes(self._buffer[position : position + 8]), length, self._max_frame_bytes
        )
        self._buffer.clear()
        raise FrameError(self._failure)


def _explain(start: bytes, length: int, limit: int) -> str:
    if start[0] in _TLS_RECORDS and start[1] == 3:
        return (
            "the other side speaks TLS on this port: set security.protocol to SSL or SASL_SSL"
            f" (its bytes start with {start.hex(' ')})"
        )
    if start[:4] == b"HTTP":
        return "the other side speaks HTTP on this port, not Kafka's protocol; check the address"
    if length < 0:
        return f"a frame has the negative length {length}; its bytes start with {start.hex(' ')}"
    return f"a frame of {length} bytes is over the limit of {limit}; its bytes start with {start.hex(' ')}"
