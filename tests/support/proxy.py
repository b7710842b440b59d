"""A TCP proxy between a client and a broker that fails on purpose, at a chosen byte of a chosen request."""

import contextlib
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Self

from groupsdk.testing.ports import LOOPBACK, ReservedPorts


_CHUNK = 65_536
_MAX_FRAME = 16 * 2**20
_HEADER = struct.Struct(">ihhi")
# SO_LINGER on, 0 s: close() sends RST and not FIN.
_LINGER_RESET = struct.pack("ii", 1, 0)


class Side(Enum):
    """Which of the two frames of an exchange a fault hits."""

    REQUEST = "request"
    ANSWER = "answer"


class Action(Enum):
    """What a fault does to its frame."""

    CUT = "cut"
    """Pass on the first `after_bytes` bytes of the frame, length prefix included, then reset both connections (RST)."""
    CLOSE = "close"
    """The same, with both connections ended in an orderly way (FIN)."""
    DELAY = "delay"
    """Hold the frame, and what follows it in that direction, for `delay_ms`."""
    DROP = "drop"
    """Leave this frame out. The connection goes on, one exchange short."""
    BLACK_HOLE = "black hole"
    """From this frame on read everything of that direction and pass on nothing."""
    TRUNCATE = "truncate"
    """Pass on the first `after_bytes` bytes of the body with a length prefix that says so."""
    GARBLE = "garble"
    """Replace the bytes from `after_bytes` of the body on by `replacement`, length and prefix unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One scripted fault, which happens once.

    Attributes:
        api_key: the API it waits for; None for any.
        side: whether it hits the request or its answer.
        occurrence: which request of that API counted from when the fault was added, 1 the first.
        after_bytes: see `Action`; for CUT and CLOSE it may be anything from 0 to the length of the frame.
    """

    action: Action
    api_key: int | None = None
    side: Side = Side.REQUEST
    occurrence: int = 1
    after_bytes: int = 0
    delay_ms: int = 0
    replacement: bytes = b"\xff"

    def __post_init__(self) -> None:
        if self.occurrence < 1 or self.after_bytes < 0 or self.delay_ms < 0:
            raise ValueError(f"out of bounds: {self}")
        if self.action is Action.GARBLE and not self.replacement:
            raise ValueError("GARBLE needs a replacement")


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that came in."""

    api_key: int
    api_version: int
    correlation_id: int


class _EndLinkError(Exception):
    """A fault ends the connection now."""

    def __init__(self, *, orderly: bool) -> None:
        super().__init__()
        self.orderly = orderly


class _Armed:
    """A fault that waits for its request; equal faults are counted apart."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self._left = fault.occurrence

    def meets(self, seen: Seen) -> bool:
        if self.fault.api_key not in (None, seen.api_key):
            return False
        self._left -= 1
        return self._left == 0


class _Link:
    """One client connection and its broker connection, a thread for each direction."""

    def __init__(self, proxy: "FaultProxy", client: socket.socket, broker: socket.socket) -> None:
        self._proxy = proxy
        self._sockets = (client, broker)
        self._lock = threading.Lock()
        self._pending: dict[int, list[Fault]] = {}
        self._directions = 2
        self._closed = threading.Event()
        ways = ((client, broker, self._on_request), (broker, client, self._on_answer))
        self._threads = [threading.Thread(target=self._run, args=way, daemon=True) for way in ways]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(5)

    def close(self, *, orderly: bool) -> None:
        """Close both sides with FIN or, not orderly, with RST, so that each end sees a broken connection."""
        with self._lock:
            if self._closed.is_set():
                return
            self._closed.set()
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                if not orderly:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
                # Wakes the thread that reads it, which close alone does not.
                sock.shutdown(socket.SHUT_RDWR if orderly else socket.SHUT_RD)
            sock.close()
        self._proxy._forget(self)

    def _run(
        self,
        source: socket.socket,
        target: socket.socket,
        handle: Callable[[bytes, socket.socket], bool],
    ) -> None:
        try:
            self._pump(source, target, handle)
            # This end has finished; the other may still have something to say. (Unless it was `close` that
            # ended the reading: a FIN from here would come before its RST.)
            if not self._closed.is_set():
                target.shutdown(socket.SHUT_WR)
        except _EndLinkError as end:
            self.close(orderly=end.orderly)
        except OSError:
            self.close(orderly=False)
        with self._lock:
            self._directions -= 1
            last = self._directions == 0
        if last:
            self.close(orderly=True)

    def _pump(
        self,
        source: socket.socket,
        target: socket.socket,
        handle: Callable[[bytes, socket.socket], bool],
    ) -> None:
        passing = True
        while (prefix := self._exactly(source, 4)) is not None:
            (size,) = struct.unpack(">i", prefix)
            if not 0 <= size <= _MAX_FRAME:
                # Not Kafka's protocol (TLS, say): there are no frames to count, so pass all of it on.
                target.sendall(prefix)
                while chunk := source.recv(_CHUNK):
                    target.sendall(chunk)
                return
            body = self._exactly(source, size)
            if body is None:
                return
            passing = passing and handle(prefix + body, target)

    def _exactly(self, source: socket.socket, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            chunk = source.recv(min(_CHUNK, size - len(data)))
            if not chunk:
                return None
            data += chunk
        return bytes(data)

    def _on_request(self, frame: bytes, target: socket.socket) -> bool:
        if len(frame) < _HEADER.size:
            target.sendall(frame)
            return True
        _, api_key, api_version, correlation_id = _HEADER.unpack_from(frame)
        due = self._proxy._due(Seen(api_key, api_version, correlation_id))
        answer = [fault for fault in due if fault.side is Side.ANSWER]
        if answer:
            with self._lock:
                self._pending[correlation_id] = answer
        return self._apply([f for f in due if f.side is Side.REQUEST], frame, target)

    def _on_answer(self, frame: bytes, target: socket.socket) -> bool:
        due: list[Fault] = []
        if len(frame) >= 8:
            (correlation_id,) = struct.unpack_from(">i", frame, 4)
            with self._lock:
                due = self._pending.pop(correlation_id, [])
        return self._apply(due, frame, target)

    def _apply(self, faults: list[Fault], frame: bytes, target: socket.socket) -> bool:
        for fault in faults:
            match fault.action:
                case Action.DELAY:
                    if self._closed.wait(fault.delay_ms / 1000):
                        return False
                case Action.DROP:
                    return True
                case Action.BLACK_HOLE:
                    return False
                case Action.CUT | Action.CLOSE:
                    target.sendall(frame[: fault.after_bytes])
                    raise _EndLinkError(orderly=fault.action is Action.CLOSE)
                case Action.TRUNCATE:
                    body = frame[4 : 4 + fault.after_bytes]
                    frame = struct.pack(">i", len(body)) + body
                case Action.GARBLE:
                    frame = _garbled(frame, fault)
        if self._proxy._silent:
            return False
        target.sendall(frame)
        return True


def _garbled(frame: bytes, fault: Fault) -> bytes:
    start = min(len(frame), 4 + fault.after_bytes)
    length = len(frame) - start
    filler = (fault.replacement * (length // len(fault.replacement) + 1))[:length]
    return frame[:start] + filler


class FaultProxy:
    """Pass bytes between clients and one broker, and fail as scripted.

    The broker's answers to Metadata and FindCoordinator name the address where the broker is to be reached, so
    the proxy has to be what it advertises; its port is bound from the start for that reason::

        with FaultProxy() as proxy:
            with LocalKafka(advertised={"PLAINTEXT": [proxy.address]}) as kafka:
                proxy.connect_to(kafka.nodes[0].address("PLAINTEXT"))
                proxy.add(Fault(action=Action.CUT, api_key=11, side=Side.ANSWER, after_bytes=6))

    Faults are matched in the order in which they were added; each happens once. All methods may be called
    from any thread. TLS passes through untouched, but its requests cannot be told apart.
    """

    def __init__(self) -> None:
        self._reserved = ReservedPorts(1)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._upstream: tuple[str, int] | None = None
        self._armed: list[_Armed] = []
        self._seen: list[Seen] = []
        self._happened: list[Fault] = []
        self._links: set[_Link] = set()
        self._connections = 0
        self._silent = False
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._open()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to advertise."""
        return LOOPBACK, self._reserved.ports[0]

    @property
    def bootstrap_servers(self) -> str:
        """The address in the form of `bootstrap.servers`."""
        host, port = self.address
        return f"{host}:{port}"

    @property
    def connections(self) -> int:
        """How many connections were passed on so far."""
        with self._lock:
            return self._connections

    def connect_to(self, upstream: str) -> None:
        """Name the broker, as host:port, for connections from now on."""
        host, _, port = upstream.rpartition(":")
        with self._lock:
            self._upstream = (host, int(port))

    def add(self, *faults: Fault) -> None:
        """Add faults; requests are counted from now on."""
        with self._lock:
            self._armed.extend(map(_Armed, faults))

    def reset(self) -> None:
        """Forget all faults and counts, and be there for all again.

        Open connections are closed, since a fault may have left them silent or an exchange short.
        """
        self.disconnect()
        with self._lock:
            self._armed.clear()
            self._seen.clear()
            self._happened.clear()
            self._connections = 0
            self._silent = False
        self.refuse(False)

    def refuse(self, refusing: bool = True) -> None:
        """Close the port, so that connecting is refused, or open it again; open connections stay."""
        if refusing:
            self._shut()
        elif self._listener is None:
            self._open()

    def black_hole(self, silent: bool = True) -> None:
        """Accept and read, and pass on nothing more; to end it helps connections of later on only."""
        with self._lock:
            self._silent = silent

    def disconnect(self) -> None:
        """Reset all open connections."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.close(orderly=False)

    def seen(self, api_key: int | None = None) -> list[Seen]:
        """Return the requests that came in since the last `reset`, of one API or of all."""
        with self._lock:
            return [seen for seen in self._seen if api_key in (None, seen.api_key)]

    def counts(self) -> Counter[tuple[int, int]]:
        """Return how many requests came in, by API key and version."""
        return Counter((seen.api_key, seen.api_version) for seen in self.seen())

    def happened(self) -> list[Fault]:
        """Return the faults that were met by their request."""
        with self._lock:
            return list(self._happened)

    def wait_for(self, fault: Fault, timeout_ms: int = 10_000) -> None:
        """Wait until `fault` was met by its request; raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: fault in self._happened, timeout_ms / 1000):
                raise TimeoutError(f"{fault} was not met; seen: {self._seen[-20:]}")

    def close(self) -> None:
        """Close the port and all connections."""
        self._shut()
        with self._lock:
            links = list(self._links)
        for link in links:
            link.close(orderly=False)
            link.join()
        self._reserved.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        self._listener = socket.create_server(self.address, backlog=256)
        arguments = (self._listener,)
        self._thread = threading.Thread(
            target=self._accept, args=arguments, name="fault-proxy", daemon=True
        )
        self._thread.start()

    def _shut(self) -> None:
        if self._listener is None or self._thread is None:
            return
        # A blocked accept() is not woken by close() alone.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)
        self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                upstream = self._upstream
            try:
                if upstream is None:
                    raise ConnectionRefusedError
                broker = socket.create_connection(upstream, timeout=5)
            except OSError:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
                client.close()
                continue
            broker.settimeout(None)
            for sock in (client, broker):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = _Link(self, client, broker)
            with self._lock:
                self._links.add(link)
                self._connections += 1
            link.start()

    def _due(self, seen: Seen) -> list[Fault]:
        """Count a request and take out the faults that it meets."""
        with self._changed:
            self._seen.append(seen)
            met = [armed for armed in self._armed if armed.meets(seen)]
            self._armed = [armed for armed in self._armed if armed not in met]
            due = [armed.fault for armed in met]
            self._happened.extend(due)
            self._changed.notify_all()
            return due

    def _forget(self, link: _Link) -> None:
        with self._lock:
            self._links.discard(link)
