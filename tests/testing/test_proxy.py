"""FaultProxy passes frames on, and fails at the byte that it was told."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from tests.support.proxy import Action, Fault, FaultProxy, Side


_HEARTBEAT, _JOIN = 12, 11
_TIMEOUT_S = 60.0


class EchoServer:
    """Answers each frame with its correlation id and body; keeps what it got."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.endings: list[str] = []
        self.ended = threading.Semaphore(0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept(self) -> None:
        threads = []
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                break
            threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def _serve(self, connection: socket.socket) -> None:
        buffer = b""
        ending = "FIN"
        with connection:
            try:
                while chunk := connection.recv(65_536):
                    buffer += chunk
                    while len(buffer) >= 4 and len(buffer) >= 4 + _size(buffer):
                        frame, buffer = buffer[: 4 + _size(buffer)], buffer[4 + _size(buffer) :]
                        self.received.append(frame)
                        answer = frame[8:]
                        connection.sendall(struct.pack(">i", len(answer)) + answer)
            except ConnectionError:
                ending = "RST"
        if buffer:
            self.received.append(buffer)
        self.endings.append(ending)
        self.ended.release()


def _size(buffer: bytes) -> int:
    return int(struct.unpack_from(">i", buffer)[0])


def _frame(api_key: int, correlation_id: int, body: bytes = b"body", version: int = 0) -> bytes:
    content = struct.pack(">hhi", api_key, version, correlation_id) + body
    return struct.pack(">i", len(content)) + content


def _answer(correlation_id: int, body: bytes = b"body") -> bytes:
    content = struct.pack(">i", correlation_id) + body
    return struct.pack(">i", len(content)) + content


class Client:
    """A blocking socket to the proxy."""

    def __init__(self, proxy: FaultProxy) -> None:
        self.socket = socket.create_connection(proxy.address, timeout=_TIMEOUT_S)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(frames))

    def exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size and (chunk := self.socket.recv(size - len(data))):
            data += chunk
        return data

    def rest(self) -> tuple[bytes, str]:
        """Return all bytes up to the end, and how the end came."""
        data = b""
        try:
            while chunk := self.socket.recv(65_536):
                data += chunk
        except ConnectionError:
            return data, "RST"
        return data, "FIN"

    def silent(self) -> bool:
        """Return whether nothing comes for a moment."""
        self.socket.settimeout(0.1)
        try:
            return self.socket.recv(1) is None
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(_TIMEOUT_S)


@pytest.fixture
def server() -> Iterator[EchoServer]:
    server = EchoServer()
    yield server
    server.close()


@pytest.fixture
def proxy(server: EchoServer) -> Iterator[FaultProxy]:
    with FaultProxy() as proxy:
        proxy.connect_to(server.address)
        yield proxy


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[Client]:
    with Client(proxy) as client:
        yield client


def test_frames_pass_and_are_counted(proxy: FaultProxy, client: Client) -> None:
    client.send(
        _frame(_HEARTBEAT, 1, version=4), _frame(_JOIN, 2), _frame(_HEARTBEAT, 3, version=4)
    )
    assert client.exactly(36) == _answer(1) + _answer(2) + _answer(3)
    assert proxy.counts() == {(_HEARTBEAT, 4): 2, (_JOIN, 0): 1}
    assert [seen.correlation_id for seen in proxy.seen(_HEARTBEAT)] == [1, 3]
    assert proxy.connections == 1


@pytest.mark.parametrize("after", [0, 1, 4, 7, 15])
@pytest.mark.parametrize(("action", "ending"), [(Action.CUT, "RST"), (Action.CLOSE, "FIN")])
def test_end_within_an_answer(
    proxy: FaultProxy, client: Client, action: Action, ending: str, after: int
) -> None:
    proxy.add(Fault(action=action, api_key=_JOIN, side=Side.ANSWER, after_bytes=after))
    client.send(_frame(_HEARTBEAT, 1))
    assert client.exactly(12) == _answer(1)
    client.send(_frame(_JOIN, 2, b"longer body"))
    assert client.rest() == (_answer(2, b"longer body")[:after], ending)


@pytest.mark.parametrize("after", [0, 3, 10, 16])
@pytest.mark.parametrize(("action", "ending"), [(Action.CUT, "RST"), (Action.CLOSE, "FIN")])
def test_end_within_a_request(
    proxy: FaultProxy,
    client: Client,
    server: EchoServer,
    action: Action,
    ending: str,
    after: int,
) -> None:
    proxy.add(Fault(action=action, api_key=_JOIN, occurrence=2, after_bytes=after))
    client.send(_frame(_JOIN, 1))
    assert client.exactly(12) == _answer(1)
    client.send(_frame(_JOIN, 2))
    assert client.rest()[1] == ending
    assert server.ended.acquire(timeout=_TIMEOUT_S)
    expected = [_frame(_JOIN, 1), _frame(_JOIN, 2)[:after]]
    assert server.received == [part for part in expected if part]


def test_drop_leaves_the_connection(proxy: FaultProxy, client: Client, server: EchoServer) -> None:
    proxy.add(Fault(action=Action.DROP, api_key=_JOIN))
    proxy.add(Fault(action=Action.DROP, api_key=_HEARTBEAT, side=Side.ANSWER))
    client.send(_frame(_JOIN, 1), _frame(_HEARTBEAT, 2), _frame(_HEARTBEAT, 3))
    assert client.exactly(12) == _answer(3)
    assert server.received == [_frame(_HEARTBEAT, 2), _frame(_HEARTBEAT, 3)]


def test_delay_holds_what_follows(proxy: FaultProxy, client: Client) -> None:
    fault = Fault(action=Action.DELAY, api_key=_JOIN, delay_ms=3_600_000)
    proxy.add(fault)
    client.send(_frame(_JOIN, 1), _frame(_HEARTBEAT, 2))
    proxy.wait_for(fault)
    assert client.silent()


def test_delayed_frame_is_passed_on_in_the_end(proxy: FaultProxy, client: Client) -> None:
    proxy.add(Fault(action=Action.DELAY, api_key=_JOIN, delay_ms=5))
    client.send(_frame(_JOIN, 1), _frame(_HEARTBEAT, 2))
    assert client.exactly(24) == _answer(1) + _answer(2)


def test_black_hole_of_one_connection(proxy: FaultProxy, client: Client) -> None:
    proxy.add(Fault(action=Action.BLACK_HOLE, api_key=_JOIN))
    client.send(_frame(_JOIN, 1), _frame(_HEARTBEAT, 2))
    assert client.silent()
    with Client(proxy) as other:
        other.send(_frame(_HEARTBEAT, 3))
        assert other.exactly(12) == _answer(3)


def test_black_hole_of_all(proxy: FaultProxy, client: Client, server: EchoServer) -> None:
    proxy.black_hole()
    client.send(_frame(_JOIN, 1))
    assert client.silent()
    assert server.received == []
    proxy.reset()
    with Client(proxy) as other:
        other.send(_frame(_HEARTBEAT, 2))
        assert other.exactly(12) == _answer(2)


def test_truncated_answer_has_the_length_of_its_rest(proxy: FaultProxy, client: Client) -> None:
    proxy.add(Fault(action=Action.TRUNCATE, api_key=_JOIN, side=Side.ANSWER, after_bytes=5))
    client.send(_frame(_JOIN, 1), _frame(_JOIN, 2))
    assert client.exactly(21) == b"\0\0\0\5" + _answer(1)[4:9] + _answer(2)


def test_garbled_answer_keeps_its_length(proxy: FaultProxy, client: Client) -> None:
    proxy.add(Fault(action=Action.GARBLE, side=Side.ANSWER, after_bytes=5, replacement=b"\x01\x02"))
    client.send(_frame(_JOIN, 7))
    assert client.exactly(12) == _answer(7)[:9] + b"\x01\x02\x01"


def test_refuse_and_accept_again(proxy: FaultProxy, client: Client) -> None:
    client.send(_frame(_JOIN, 0))
    assert client.exactly(12) == _answer(0)
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        Client(proxy)
    client.send(_frame(_JOIN, 1))
    assert client.exactly(12) == _answer(1)
    proxy.refuse(False)
    with Client(proxy) as other:
        other.send(_frame(_JOIN, 2))
        assert other.exactly(12) == _answer(2)


def test_equal_faults_are_counted_apart(proxy: FaultProxy, client: Client) -> None:
    first = Fault(action=Action.DROP, api_key=_JOIN, occurrence=1)
    proxy.add(first, Fault(action=Action.DROP, api_key=_JOIN, occurrence=3))
    client.send(*(_frame(_JOIN, n) for n in range(1, 5)))
    assert client.exactly(24) == _answer(2) + _answer(4)
    assert [fault.occurrence for fault in proxy.happened()] == [1, 3]


def test_wait_for_says_what_was_seen(proxy: FaultProxy, client: Client) -> None:
    with pytest.raises(TimeoutError, match="was not met"):
        proxy.wait_for(Fault(action=Action.CUT, api_key=99), timeout_ms=10)


def test_disconnect_resets_open_connections(proxy: FaultProxy, client: Client) -> None:
    client.send(_frame(_JOIN, 1))
    assert client.exactly(12) == _answer(1)
    proxy.disconnect()
    assert client.rest() == (b"", "RST")


def test_orderly_end_of_the_client_reaches_the_server(
    proxy: FaultProxy, client: Client, server: EchoServer
) -> None:
    client.send(_frame(_JOIN, 1))
    client.socket.shutdown(socket.SHUT_WR)
    assert client.rest() == (_answer(1), "FIN")
    assert server.ended.acquire(timeout=_TIMEOUT_S)
    assert server.endings == ["FIN"]


def test_other_protocols_pass(proxy: FaultProxy, client: Client, server: EchoServer) -> None:
    hello = b"\x16\x03\x01\x02\x00" + bytes(300)
    client.send(hello)
    client.socket.shutdown(socket.SHUT_WR)
    client.rest()
    assert server.ended.acquire(timeout=_TIMEOUT_S)
    assert server.received == [hello]


def test_without_a_broker_connections_are_reset() -> None:
    with FaultProxy() as proxy:
        # The reset may come while the client still waits for its connection.
        with contextlib.suppress(ConnectionResetError), Client(proxy) as client:
            assert client.rest() == (b"", "RST")
        assert proxy.connections == 0


@pytest.mark.parametrize("wrong", [{"occurrence": 0}, {"after_bytes": -1}, {"delay_ms": -1}])
def test_fault_out_of_bounds_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="out of bounds"):
        Fault(
            action=Action.CUT,
            occurrence=wrong.get("occurrence", 1),
            after_bytes=wrong.get("after_bytes", 0),
            delay_ms=wrong.get("delay_ms", 0),
        )
