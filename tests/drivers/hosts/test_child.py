"""Test the child's side: what it does with a parent that does not read, or is gone."""

import asyncio
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from groupsdk.drivers.hosts.child import Child, ParentLink
from groupsdk.drivers.hosts.frames import (
    Ended,
    FrameReader,
    Logged,
    MetricsAsked,
    MetricsTold,
    Shown,
    Start,
    encode,
)
from groupsdk.member.events import Polled
from tests.drivers.views import view
from tests.drivers.virtual import config


ROOT = Path(__file__).parents[3]


class FakeTransport(asyncio.Transport):
    """Takes what is written until its buffer is full."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[object] = []
        self.closing = False
        self.protocol: ParentLink | None = None
        self.full = False
        self._reader = FrameReader()

    @override
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == 0, "pauses as soon as the parent does not read"

    @override
    def write(self, data: Any) -> None:
        self.written += self._reader.feed(data)
        if self.full and self.protocol is not None:
            self.protocol.pause_writing()

    @override
    def is_closing(self) -> bool:
        return self.closing

    @override
    def close(self) -> None:
        self.closing = True


class FakeChild:
    """Notes what the link hands it."""

    def __init__(self) -> None:
        self.taken: list[object] = []
        self.whys: list[str] = []

    def take(self, message: object) -> None:
        self.taken.append(message)

    def orphaned(self, why: str) -> None:
        self.whys.append(why)


def linked() -> tuple[ParentLink, FakeTransport, FakeChild]:
    child: Any = FakeChild()
    link = ParentLink(child, FrameReader())
    transport = FakeTransport()
    transport.protocol = link
    link.connection_made(transport)
    return link, transport, child


def logged(number: int) -> Logged:
    return Logged("groupsdk", 20, str(number), 0.0, "", "", 0, "", None)


def epochs(transport: FakeTransport) -> list[int]:
    return [each.view.assignment_epoch for each in transport.written if isinstance(each, Shown)]


async def test_only_the_latest_view_waits_for_a_parent_that_does_not_read() -> None:
    link, transport, _ = linked()
    link.show(view(assignment_epoch=1))
    transport.full = True
    link.show(view(assignment_epoch=2))
    for epoch in range(3, 1_000):
        link.show(view(assignment_epoch=epoch))
    assert epochs(transport) == [1, 2]
    transport.full = False
    link.resume_writing()
    assert epochs(transport) == [1, 2, 999]


async def test_log_records_that_wait_are_bounded_and_the_last_word_comes_last() -> None:
    link, transport, _ = linked()
    link.pause_writing()
    for number in range(5_000):
        link.log(logged(number))
    link.tell(MetricsTold(1, {}))
    link.tell(Ended(None, {}))
    link.show(view())
    assert transport.written == []
    link.resume_writing()
    kinds = [type(each) for each in transport.written]
    assert kinds == [Shown, *[Logged] * 1_000, MetricsTold, Ended]
    assert transport.written[1] == logged(4_000)


async def test_messages_sent_before_the_connection_are_sent_with_it() -> None:
    child: Any = FakeChild()
    reader = FrameReader()
    first = reader.feed(encode(Polled()) + encode(MetricsAsked(1)))
    assert next(first) == Polled()  # as the first frame is read by other means
    link = ParentLink(child, reader)
    link.show(view(assignment_epoch=7))
    transport = FakeTransport()
    link.connection_made(transport)
    assert epochs(transport) == [7]
    assert child.taken == [MetricsAsked(1)]


async def test_nothing_is_written_to_a_parent_that_is_gone() -> None:
    link, transport, child = linked()
    link.connection_lost(ConnectionResetError())
    link.show(view())
    link.tell(Ended(None, {}))
    await link.finish()
    assert transport.written == []
    assert child.whys == ["the process that it belongs to has died"]


async def test_queued_messages_are_sent_at_the_end_to_a_parent_that_reads_again() -> None:
    link, transport, _ = linked()
    link.pause_writing()
    link.log(logged(1))
    link.show(view())
    link.tell(Ended(None, {}))
    finishing = asyncio.create_task(link.finish())
    await asyncio.sleep(0)
    assert transport.written == []
    link.resume_writing()
    await asyncio.sleep(0)
    assert [type(each) for each in transport.written] == [Shown, Logged, Ended]
    link.connection_lost(None)
    await finishing


async def test_a_parent_that_never_reads_again_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("groupsdk.drivers.hosts.child._FLUSH_S", 0.001)
    link, transport, _ = linked()
    link.pause_writing()
    link.tell(Ended(None, {}))
    await link.finish()
    assert transport.closing
    assert transport.written == []


async def test_the_end_of_the_parents_words_is_the_end_of_the_member_but_not_of_ours() -> None:
    link, transport, child = linked()
    assert link.eof_received() is True
    assert child.whys == ["its parent has dropped it"]
    link.tell(Ended(None, {}))
    assert transport.written == [Ended(None, {})]


@pytest.fixture
def root_logger() -> Iterator[None]:
    """A child takes hold of all that is logged in its process, which is ours here."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers = handlers


@pytest.mark.usefixtures("root_logger")
def test_without_pidfd_the_parent_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def pidfd_open(_: int, _flags: int = 0) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", pidfd_open)
    monkeypatch.setattr("groupsdk.drivers.hosts.child._WATCH_S", 0.001)
    gone = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ours, theirs = socket.socketpair()
    messages: list[object] = []

    async def main() -> None:
        start = Start(config(bootstrap_servers="127.0.0.1:1"), gone.pid, 100)
        child = Child(theirs, start, FrameReader())
        running = asyncio.create_task(child.run())
        reader, writer = await asyncio.open_connection(sock=ours)
        writer.write(encode(Polled()))
        frames = FrameReader()
        while not messages:  # it works while the parent lives
            messages.extend(frames.feed(await reader.read(65_536)))
        gone.kill()
        gone.wait()
        await running
        messages.extend(frames.feed(await reader.read()))
        writer.close()

    with ours, theirs:
        asyncio.run(main())
    gone.communicate()
    assert isinstance(messages[-1], Ended)
    assert messages[-1].error is None


PROGRAM = "import sys; from groupsdk.drivers.hosts.child import main; main(int(sys.argv[1]))"


def program(first: bytes) -> tuple[int, list[object], str]:
    """Run the child with these first bytes; return its status, what it said, and its stderr."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            text=True,
        )
        theirs.close()
        ours.sendall(first)
        ours.shutdown(socket.SHUT_WR)
        said: list[object] = []
        reader = FrameReader()
        while data := ours.recv(65_536):
            said += reader.feed(data)
        _, stderr = process.communicate(timeout=60)
    return process.returncode, said, stderr


def test_a_child_whose_parent_died_before_it_started_exits_quietly() -> None:
    assert program(b"") == (0, [], "")


def test_a_child_that_cannot_read_its_settings_says_so() -> None:
    status, said, stderr = program(b"\0\0\0\x05hello")
    assert status == 1
    (ended,) = said
    assert isinstance(ended, Ended)
    assert ended.error is not None
    assert "Error" in ended.error
    assert stderr == ""


def test_a_child_whose_parent_is_dead_already_ends() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    start = Start(config(bootstrap_servers="127.0.0.1:1"), gone.pid, 100)
    status, said, stderr = program(encode(start))
    assert (status, stderr) == (0, "")
    assert isinstance(said[-1], Ended)
    assert said[-1].error is None
