"""The HTTP endpoint of `groupsdk run --health`, in the standard library: `run` works without the extra `rest`."""

import json
import logging
import socket
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Protocol

from typing_extensions import override

from groupsdk.errors import ConfigError
from groupsdk.limits import max_open_files
from groupsdk.snapshot import MemberSnapshot
from groupsdk.telemetry.openmetrics import CONTENT_TYPE


logger = logging.getLogger(__name__)

_LOCAL: Final = ("127.0.0.1", "::1", "localhost")
_MAX_CONNECTIONS: Final = 32
_SILENT_S: Final = 5.0
_ACCEPT_PAUSE_S: Final = 0.1


class Observable(Protocol):
    """A membership whose health can be asked; called by several threads at once."""

    def snapshot(self) -> MemberSnapshot: ...

    def openmetrics(self) -> str:
        """Return its metrics in the OpenMetrics format; "" where there are none."""


class HealthServer:
    """Answers GET /health: 200 while the member is well, 503 while it is not, with the membership as JSON.

    A member is well while its coordinator can be reached. GET /metrics responds in the OpenMetrics format. With the port 0 it takes a
    free one.
    """

    def __init__(self, address: str, running: Observable) -> None:
        host, colon, port = address.rpartition(":")
        if not (colon and host and port.isdecimal() and int(port) < 65_536):
            raise ConfigError(
                f"--health must be HOST:PORT, such as 127.0.0.1:8080, not {address!r}"
            )
        if host.strip("[]") not in _LOCAL:
            logger.warning(
                "--health %s: it can be reached from the network without a password", address
            )
        place = host.strip("[]"), int(port)
        try:
            self._server = _BoundedServer(place, _handler(running))
        except OSError as error:
            why = error.strerror or error
            raise ConfigError(f"--health: cannot listen on {address}: {why}") from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="groupsdk-health", daemon=True
        )

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Answer from now on, on threads of its own."""
        logger.info("health: http://%s:%d/health", self._server.server_address[0], self.port)
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def health(snapshot: MemberSnapshot) -> tuple[bool, dict[str, Any]]:
    """Return whether a member is well (its `trouble` is None), and the body of the health response."""
    well = snapshot.trouble is None
    return well, {
        "status": "up" if well else "down",
        "group": snapshot.group_id,
        "member": snapshot.member_id,
        "generation": snapshot.generation.generation_id,
        "state": snapshot.state.name.lower(),
        "stable": snapshot.stable,
        "coordinator": snapshot.coordinator,
        "trouble": snapshot.trouble,
    }


class _BoundedServer(ThreadingHTTPServer):
    """Holds a bounded number of connections, one thread each: a new one takes the place of the oldest."""

    def __init__(self, *arguments: Any) -> None:
        self._most = max(1, min(_MAX_CONNECTIONS, max_open_files() // 8))
        self._held: dict[socket.socket, None] = {}  # in the order of their arrival
        self._lock = threading.Lock()
        super().__init__(*arguments)

    @override
    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            # out of descriptors: the connection stays in the backlog, so the loop would try again at once
            time.sleep(_ACCEPT_PAUSE_S)
            raise

    @override
    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._held) >= self._most:
                oldest = next(iter(self._held))
                del self._held[oldest]
                with suppress(OSError):  # its client has hung up
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread closes it
            self._held[request] = None
        super().process_request(request, client_address)

    @override
    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._held.pop(request, None)
        super().shutdown_request(request)

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("health: a connection failed: %r", sys.exception())


def _handler(running: Observable) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _SILENT_S  # a client that sends nothing does not keep a thread

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/health" | "/healthz":
                    well, shown = health(running.snapshot())
                    self._answer(200 if well else 503, "application/json", json.dumps(shown))
                case "/metrics":
                    self._answer(200, CONTENT_TYPE, running.openmetrics())
                case _:
                    self._answer(404, "text/plain", "there is /health and /metrics\n")

        def _answer(self, status: int, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            logger.debug("health: %s", format % args)

    return Handler
