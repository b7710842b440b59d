"""Check whether a broker is ready, with a minimal client.

Written apart from `groupsdk.wire`, so that a fault there does not look like a broker that does not start.
"""

import socket
import struct
from dataclasses import dataclass
from typing import Self


_METADATA, _FIND_COORDINATOR, _HEARTBEAT = 3, 10, 12
_TIMEOUT_S = 5.0
_MAX_ANSWER = 1 << 20
UNKNOWN_MEMBER_ID = 25
"""The response of a coordinator that has loaded its groups to the heartbeat of an unknown member."""


@dataclass(frozen=True, slots=True)
class Found:
    """The response to FindCoordinator: `error_code` 0 for success, and the `node_id` of the coordinator."""

    error_code: int
    node_id: int


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


class _Reader:
    """Decodes the values of a response in order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def integer(self, form: str) -> int:
        (value,) = struct.unpack_from(f">{form}", self._data, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def skip_string(self) -> None:
        length = self.integer("h")
        self._at += max(0, length)


class Probe:
    """One blocking connection to a PLAINTEXT listener. Raises OSError for any failure."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            if not chunk:
                raise ConnectionResetError("the broker closed the connection")
            data += chunk
        return data

    def _ask(self, api_key: int, version: int, body: bytes) -> bytes:
        frame = struct.pack(">hhi", api_key, version, 1) + _string("groupsdk-testing") + body
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self._receive(4))
        if not 4 <= size <= _MAX_ANSWER:
            raise ConnectionError(f"a response of {size} bytes cannot come from a Kafka broker")
        return self._receive(size)[4:]

    def broker_ids(self) -> set[int]:
        """Return the ids of the brokers that are registered and not fenced (Metadata v1)."""
        reader = _Reader(self._ask(_METADATA, 1, struct.pack(">i", 0)))
        ids = set()
        for _ in range(reader.integer("i")):
            ids.add(reader.integer("i"))
            reader.skip_string()
            reader.integer("i")
            reader.skip_string()
        return ids

    def in_sync(self, topic: str) -> list[tuple[set[int], set[int]]]:
        """Return the replicas and the in-sync replicas of each partition of `topic` (Metadata v1)."""
        reader = _Reader(self._ask(_METADATA, 1, struct.pack(">i", 1) + _string(topic)))
        for _ in range(reader.integer("i")):
            reader.integer("i")
            reader.skip_string()
            reader.integer("i")
            reader.skip_string()
        reader.integer("i")
        found = []
        for _ in range(reader.integer("i")):
            reader.integer("h")
            reader.skip_string()
            reader.integer("b")
            for _ in range(reader.integer("i")):
                reader.integer("h")
                reader.integer("i")
                reader.integer("i")
                replicas = {reader.integer("i") for _ in range(reader.integer("i"))}
                found.append((replicas, {reader.integer("i") for _ in range(reader.integer("i"))}))
        return found

    def find_coordinator(self, group_id: str) -> Found:
        """Return the coordinator of `group_id`; creates `__consumer_offsets` if it does not exist."""
        reader = _Reader(self._ask(_FIND_COORDINATOR, 1, _string(group_id) + b"\0"))
        reader.integer("i")
        error_code = reader.integer("h")
        reader.skip_string()
        return Found(error_code, reader.integer("i"))

    def heartbeat_error(self, group_id: str) -> int:
        """Return the error code with which this broker answers the heartbeat of an unknown member."""
        body = _string(group_id) + struct.pack(">i", 1) + _string("nobody")
        return _Reader(self._ask(_HEARTBEAT, 0, body)).integer("h")
