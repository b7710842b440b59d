"""Reserve TCP ports on loopback and keep them reserved."""

import socket
import sys
from typing import Self


LOOPBACK = "127.0.0.1"


class ReservedPorts:
    """Free ports of 127.0.0.1 that stay reserved until `close`.

    On Linux the sockets stay bound, without listening, while a broker uses the port: two sockets with SO_REUSEADDR
    may be bound to one port as long as at most one listens, and Java sets that option. So the port stays
    reserved while the broker is down between two starts: no other process gets it, and no client
    that tries to reconnect gets it as its local port (a connection to itself). On other systems the sockets are
    closed at once, and a broker that finds its port taken must be started with others."""

    def __init__(self, count: int) -> None:
        self._sockets: list[socket.socket] = []
        try:
            for _ in range(count):
                sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
                self._sockets.append(sock)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind((LOOPBACK, 0))
        except OSError:
            self.close()
            raise
        self.ports: tuple[int, ...] = tuple(sock.getsockname()[1] for sock in self._sockets)
        if sys.platform != "linux":
            self.close()

    def close(self) -> None:
        """Release the ports. Idempotent."""
        for sock in self._sockets:
            sock.close()
        self._sockets.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
