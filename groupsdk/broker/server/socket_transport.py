"""A lightweight asyncio transport for accepted plain-text sockets."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any, Final, cast

from groupsdk.lazy_imports import override


_READ_BYTES: Final = 256 * 1024
_HIGH_WATER: Final = 64 * 1024
_LOW_WATER: Final = 16 * 1024


class SocketTransport(asyncio.Transport):
    """A transport for an accepted socket, on a loop that watches file descriptors.

    It replaces asyncio's own transport, as far as a broker's connections need it, and creates neither a task nor a
    future for a connection. Without it, the row "1,000 members" of the brokers' groups in docs/benchmarks.md takes a
    quarter more CPU; requests on open connections take as long with either. Not thread-safe: used on the loop's thread.
    """

    __slots__ = (
        "_buffer",
        "_closing",
        "_data_received",
        "_is_full",
        "_is_lost",
        "_is_reading",
        "_loop",
        "_number",
        "_protocol",
        "_recv",
        "_send",
        "_socket",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        made: socket.socket,
        address: Any,
        protocol: asyncio.Protocol,
    ) -> None:
        super().__init__({"peername": address, "socket": made})
        self._loop = loop
        self._socket = made
        self._number = made.fileno()
        self._recv = made.recv
        self._send = made.send
        self._protocol: asyncio.Protocol | None = protocol
        self._data_received: Callable[[bytes], None] = protocol.data_received
        self._buffer = bytearray()
        self._closing = False
        self._is_lost = False
        self._is_full = False
        self._is_reading = False
        with contextlib.suppress(OSError):  # already disconnected; the next read will notice
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        protocol.connection_made(self)
        self.resume_reading()

    def _readable(self) -> None:
        try:
            data = self._recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(error)
            return
        if not data:
            self.close()
            return
        try:
            self._data_received(data)
        except Exception as error:  # noqa: BLE001 - a bug must not end the loop
            self._loop.call_exception_handler(
                {"message": "a connection failed", "exception": error, "transport": self}
            )
            self._lose(error)

    @override
    def pause_reading(self) -> None:
        """Stop reading; leave incoming bytes in the socket buffer."""
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._number)

    @override
    def resume_reading(self) -> None:
        """Resume reading; does nothing once the transport is closing."""
        if not (self._is_reading or self._closing):
            self._is_reading = True
            self._loop.add_reader(self._number, self._readable)

    @override
    def is_reading(self) -> bool:
        return self._is_reading

    @override
    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_lost:
            return
        if not self._buffer:
            try:
                sent = self._send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                self._lose(error)
                return
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
            self._loop.add_writer(self._number, self._writable)
        self._buffer += data
        if not self._is_full and len(self._buffer) > _HIGH_WATER:
            self._is_full = True
            self._its_protocol.pause_writing()

    def _writable(self) -> None:
        buffer = self._buffer
        try:
            del buffer[: self._send(buffer)]
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lose(error)
            return
        if self._is_full and len(buffer) <= _LOW_WATER:
            self._is_full = False
            self._its_protocol.resume_writing()
        if not buffer and not self._is_lost:
            self._loop.remove_writer(self._number)
            if self._closing:
                self._lose(None)

    @override
    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    @override
    def is_closing(self) -> bool:
        """Return whether the transport is closed, or closes once everything is sent."""
        return self._closing

    @override
    def close(self) -> None:
        if not self._closing:
            self.pause_reading()
            self._closing = True
            if not self._buffer:
                self._lose(None)

    @override
    def abort(self) -> None:
        self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self.pause_reading()
        self._closing = self._is_lost = True
        self._buffer.clear()
        self._loop.remove_writer(self._number)
        # later, as asyncio's transports do: the caller that closes a connection is in the middle of something
        self._loop.call_soon(self._lost, error)

    def _lost(self, error: Exception | None) -> None:
        protocol = self._its_protocol
        self._protocol = None
        self._data_received = _drop  # no cycle is left, which only the garbage collector would free
        try:
            protocol.connection_lost(error)
        finally:
            self._socket.close()

    @property
    def _its_protocol(self) -> asyncio.Protocol:
        return cast("asyncio.Protocol", self._protocol)


def _drop(_: bytes) -> None:
    """Do nothing with bytes that arrive after the connection is lost."""
