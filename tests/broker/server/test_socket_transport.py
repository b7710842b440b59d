"""The transport of plain connections, over a pair of sockets."""

import asyncio
import gc
import select
import socket
import struct
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from typing_extensions import override

from groupsdk.broker.server.socket_transport import SocketTransport


_MUCH = b"x" * 4_000_000


class Recorder(asyncio.Protocol):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.data = b""
        self.told: list[str] = []
        self.error: Exception | None = None
        self.received = asyncio.Event()
        self.lost = asyncio.Event()
        self.fails = False
        self.transport: asyncio.BaseTransport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.told.append(f"made by {transport.get_extra_info('peername')}")

    @override
    def data_received(self, data: bytes) -> None:
        if self.fails:
            raise RuntimeError("a bug")
        self.data += data
        self.received.set()

    @override
    def pause_writing(self) -> None:
        self.told.append("full")

    @override
    def resume_writing(self) -> None:
        self.told.append("room")

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append("lost")
        self.error = exc
        self.lost.set()


class Ends:
    """A transport, what it tells, and the other end."""

    def __init__(self, ours: socket.socket, other: socket.socket) -> None:
        ours.setblocking(False)
        other.setblocking(False)
        self.other = other
        self.ours = ours
        self.recorder = Recorder()
        self.loop = asyncio.get_running_loop()
        self.transport = SocketTransport(self.loop, ours, "there", self.recorder)

    async def arrived(self) -> None:
        """Wait until the socket has something to read, and a loop that would read it has done so."""
        await asyncio.to_thread(select.select, [self.ours], [], [], 60)
        for _ in range(3):
            await asyncio.sleep(0)

    async def read_all(self) -> bytes:
        data = b""
        while part := await self.loop.sock_recv(self.other, 1 << 20):
            data += part
        return data


@contextmanager
def _pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        other = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    with ours, other:
        yield ours, other


def _run(test: Callable[[Ends], Awaitable[None]]) -> None:
    async def main() -> None:
        with _pair() as (ours, other):
            ends = Ends(ours, other)
            await test(ends)
            ends.transport.abort()
            await asyncio.sleep(0)

    asyncio.run(main())


def test_socket_transport_passes_bytes_on_and_sends_what_is_written() -> None:
    async def test(ends: Ends) -> None:
        ends.other.sendall(b"hello")
        await ends.recorder.received.wait()
        assert ends.recorder.data == b"hello"
        ends.transport.write(b"good ")
        ends.transport.write(b"day")
        ends.transport.close()
        assert await ends.read_all() == b"good day"
        assert ends.recorder.told == ["made by there", "lost"]
        assert ends.recorder.error is None
        assert ends.ours.fileno() == -1

    _run(test)


def test_unread_bytes_are_buffered_and_sent_before_the_end() -> None:
    async def test(ends: Ends) -> None:
        ends.transport.write(_MUCH)
        ends.transport.write(b"end")
        assert ends.recorder.told == ["made by there", "full"]
        assert ends.transport.get_write_buffer_size() > 64 * 1024
        ends.transport.close()
        assert ends.transport.is_closing()
        assert await ends.read_all() == _MUCH + b"end"
        assert ends.recorder.told == ["made by there", "full", "room", "lost"]

    _run(test)


def test_the_end_drops_what_is_kept_when_it_must_be_at_once() -> None:
    async def test(ends: Ends) -> None:
        ends.transport.write(_MUCH)
        ends.transport.abort()
        ends.transport.abort()
        ends.transport.write(b"too late")
        assert ends.recorder.told[-1] == "full", "it is told of the end later"
        await ends.recorder.lost.wait()
        assert len(await ends.read_all()) < len(_MUCH)
        assert ends.recorder.told.count("lost") == 1

    _run(test)


def test_nothing_is_read_while_it_is_paused() -> None:
    async def test(ends: Ends) -> None:
        ends.transport.pause_reading()
        assert not ends.transport.is_reading()
        ends.other.sendall(b"hello")
        await ends.arrived()
        assert ends.recorder.data == b""
        ends.transport.resume_reading()
        await ends.recorder.received.wait()
        assert ends.recorder.data == b"hello"

    _run(test)


def test_the_other_end_closes() -> None:
    async def test(ends: Ends) -> None:
        ends.other.close()
        await ends.recorder.lost.wait()
        assert ends.recorder.error is None
        ends.transport.resume_reading()
        assert not ends.transport.is_reading()

    _run(test)


@pytest.mark.parametrize("writes", [False, True])
def test_the_other_end_resets_the_connection(writes: bool) -> None:
    async def test(ends: Ends) -> None:
        if writes:
            ends.transport.pause_reading()
        ends.other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        ends.other.close()
        if writes:
            await ends.arrived()
            ends.transport.write(b"hello")
        await ends.recorder.lost.wait()
        assert isinstance(ends.recorder.error, OSError)

    _run(test)


def test_a_reset_while_bytes_are_kept() -> None:
    async def test(ends: Ends) -> None:
        ends.transport.pause_reading()
        ends.transport.write(_MUCH)
        ends.other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        ends.other.close()
        await ends.recorder.lost.wait()
        assert isinstance(ends.recorder.error, OSError)
        assert ends.transport.get_write_buffer_size() == 0

    _run(test)


def test_a_bug_ends_its_connection_alone_and_is_reported() -> None:
    async def test(ends: Ends) -> None:
        reported: list[dict[str, Any]] = []
        ends.loop.set_exception_handler(lambda _, context: reported.append(context))
        ends.recorder.fails = True
        ends.other.sendall(b"hello")
        await ends.recorder.lost.wait()
        assert str(ends.recorder.error) == "a bug"
        assert [str(each["exception"]) for each in reported] == ["a bug"]

    _run(test)


async def test_a_connection_that_is_refused_is_not_read() -> None:
    class Refusing(Recorder):
        @override
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, SocketTransport)
            transport.abort()

    with _pair() as (ours, _):
        recorder = Refusing()
        transport = SocketTransport(asyncio.get_running_loop(), ours, "there", recorder)
        assert not transport.is_reading()
        await recorder.lost.wait()
        assert ours.fileno() == -1


def test_a_lost_connection_leaves_nothing_to_the_garbage_collector() -> None:
    async def main() -> "weakref.ref[Recorder]":
        with _pair() as (ours, other):
            ends = Ends(ours, other)
            ends.recorder.transport = ends.transport
            ends.transport.abort()
            await ends.recorder.lost.wait()
            return weakref.ref(ends.recorder)

    gc.disable()
    try:
        assert asyncio.run(main())() is None
    finally:
        gc.enable()
