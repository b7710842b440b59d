"""Encode and decode the metadata and assignments of Connect's workers: protocol type "connect".

A version number of two bytes, then the fields. Version 0 is the eager protocol (`ConnectProtocol`), 1 and 2
the incremental cooperative one (`IncrementalCooperativeConnectProtocol`, KIP-415); 2 differs from 1 by its
number alone, which says that workers sign their internal requests (KIP-507). Reading is tolerant, as Kafka's
is: any version from 0 on is read, and what is missing after the fields of version 0 is empty.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.lazy_dataclasses import dataclass
from groupsdk.lazy_imports import override
from groupsdk.limits import MAX_STRING_BYTES


CONNECT_PROTOCOL_TYPE: Final = "connect"
"""The protocol type of groups of Connect's workers."""

EAGER_VERSION: Final = 0
"""Assignments replace each other; has no allocation, no revoked work and no delay."""
COOPERATIVE_VERSION: Final = 1
"""Assignments add to each other."""
SESSIONED_VERSION: Final = 2
"""The same, in a group whose workers sign their internal requests."""

CONNECTOR_TASK: Final = -1
"""The number that stands for the connector itself among the numbers of its tasks."""

NO_ERROR: Final = 0
"""The assignment is to be taken up."""
CONFIG_MISMATCH: Final = 1
"""The leader had not read the configurations that a member already knew; all are to join again."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_ENCODE_FAILURES = (struct.error, UnicodeEncodeError, AttributeError, TypeError)


class ConnectorTaskId(NamedTuple):
    """The id of a task: its connector, and its number among the connector's tasks. Sorts as Kafka's class."""

    connector: str
    task: int

    @override
    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


@dataclass(frozen=True, slots=True)
class ConnectAssignment:
    """The assignment of one worker or, in `WorkerState`, the work that it holds.

    Attributes:
        error: 0, or 1 (CONFIG_MISMATCH): take nothing up, join again.
        leader_url: where the leader answers to HTTP; "" where it does not.
        offset: the offset of the configurations that it was computed from.
        connectors: the connectors given; under the cooperative versions only those that are new.
        tasks: the tasks given, likewise.
        revoked_connectors: the connectors to give up, from version 1 on.
        revoked_tasks: the tasks to give up, likewise.
        delay_ms: in how many milliseconds to join again for work that is held back; 0 for never.
    """

    error: int = NO_ERROR
    leader: str = ""
    leader_url: str = ""
    offset: int = -1
    connectors: Sequence[str] = ()
    tasks: Sequence[ConnectorTaskId] = ()
    revoked_connectors: Sequence[str] = ()
    revoked_tasks: Sequence[ConnectorTaskId] = ()
    delay_ms: int = 0

    @property
    def failed(self) -> bool:
        """Whether the assignment is an error, of which no work may be started."""
        return self.error != NO_ERROR


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker's metadata for the leader.

    Attributes:
        url: the URL of its REST API; "" without one.
        offset: the offset up to which it has read the config topic.
        assignment: the work that it holds, from version 1 on; None for none.
    """

    url: str
    offset: int
    assignment: ConnectAssignment | None = None


def encode_metadata(state: WorkerState, version: int = SESSIONED_VERSION) -> bytes:
    """Encode the `state` of a worker as its metadata (Kafka: `ConnectProtocol`, `IncrementalCooperativeConnectProtocol`).

    Raises EncodeError if a value does not fit its field, or `version` is unknown.
    """
    _check_version(version)
    try:
        parts = [_INT16.pack(version), _string(state.url), _INT64.pack(state.offset)]
        if version >= COOPERATIVE_VERSION:
            held = state.assignment
            allocation = None if held is None else encode_assignment(held, version)
            size = -1 if allocation is None else len(allocation)
            parts += [_INT32.pack(size), allocation or b""]
    except _ENCODE_FAILURES as error:
        raise EncodeError(f"cannot encode the worker's state: {error}") from error
    return b"".join(parts)


def decode_metadata(data: bytes) -> WorkerState:
    """Decode a worker's metadata.

    Raises DecodeError if `data` is not such metadata, or is truncated.
    """
    reader = _Reader("worker's state", data)
    reader.version()
    url, offset = reader.string(), reader.number(_INT64)
    allocation = reader.nullable_bytes()
    held = None if allocation is None else decode_assignment(allocation)
    return WorkerState(url, offset, held)


def encode_assignment(assignment: ConnectAssignment, version: int = SESSIONED_VERSION) -> bytes:
    """Encode an assignment; version 0 leaves out revoked work and the delay.

    Raises EncodeError if a value does not fit its field, or `version` is unknown.
    """
    _check_version(version)
    try:
        parts = [
            *(_INT16.pack(version), _INT16.pack(assignment.error)),
            *(_string(assignment.leader), _string(assignment.leader_url)),
            _INT64.pack(assignment.offset),
            *_work(assignment.connectors, assignment.tasks),
        ]
        if version >= COOPERATIVE_VERSION:
            parts += _work(assignment.revoked_connectors, assignment.revoked_tasks)
            parts.append(_INT32.pack(assignment.delay_ms))
    except _ENCODE_FAILURES as error:
        raise EncodeError(f"cannot encode the assignment: {error}") from error
    return b"".join(parts)


def decode_assignment(data: bytes) -> ConnectAssignment:
    """Decode an assignment.

    Raises:
        DecodeError: `data` is not an assignment, or is truncated.
    """
    reader = _Reader("assignment", data)
    reader.version()
    error, leader, leader_url = reader.number(_INT16), reader.string(), reader.string()
    offset = reader.number(_INT64)
    connectors, tasks = reader.work("assignment")
    revoked_connectors, revoked_tasks = reader.work("revoked")
    delay_ms = 0 if reader.at_end else reader.number(_INT32)
    return ConnectAssignment(
        error,
        leader,
        leader_url,
        offset,
        connectors,
        tasks,
        revoked_connectors,
        revoked_tasks,
        delay_ms,
    )


def _work(connectors: Iterable[str], tasks: Iterable[ConnectorTaskId]) -> list[bytes]:
    """Write connectors and tasks: one element for each connector's name, its own -1 before its tasks."""
    numbers: dict[str, list[int]] = {name: [CONNECTOR_TASK] for name in connectors}
    for name, number in tasks:
        of_connector = numbers.get(name)
        if of_connector is None:
            of_connector = numbers[name] = []
        of_connector.append(number)
    parts = [_INT32.pack(len(numbers))]
    for name, of_connector in numbers.items():
        parts.append(_string(name))
        parts.append(struct.pack(f">{len(of_connector) + 1}i", len(of_connector), *of_connector))
    return parts


def _string(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > MAX_STRING_BYTES:
        raise EncodeError(
            f"the text {text[:40]!r}... has {len(encoded)} bytes in UTF-8, over the limit of"
            f" {MAX_STRING_BYTES}"
        )
    return _INT16.pack(len(encoded)) + encoded


def _check_version(version: int) -> None:
    if not EAGER_VERSION <= version <= SESSIONED_VERSION:
        raise EncodeError(
            f"the version of the connect protocol must be from {EAGER_VERSION} to {SESSIONED_VERSION}, not {version}"
        )


class _Reader:
    """Reads the fields of one message, one after the other."""

    def __init__(self, what: str, data: bytes) -> None:
        self._what = what
        self._data = data
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._data)

    def version(self) -> int:
        version = self.number(_INT16)
        if version < 0:
            raise DecodeError(
                f"the version of the connect protocol must not be negative, but is {version}"
            )
        return version

    def string(self) -> str:
        size = self._size("text", self.number(_INT16), 1)
        start = self._at
        self._at += size
        try:
            return self._data[start : self._at].decode()
        except UnicodeDecodeError:
            raise DecodeError(
                f"the {self._what} has a string at byte {start} that is not valid UTF-8"
            ) from None

    def nullable_bytes(self) -> bytes | None:
        if self.at_end:
            return None
        size = self.number(_INT32)
        if size == -1:
            return None
        start = self._at
        self._at += self._size("allocation", size, 1)
        return self._data[start : self._at]

    def work(self, name: str) -> tuple[tuple[str, ...], tuple[ConnectorTaskId, ...]]:
        """Read a list of connectors with their numbers; nothing where it is null or missing."""
        connectors: list[str] = []
        tasks: list[ConnectorTaskId] = []
        count = -1 if self.at_end else self.number(_INT32)
        if count == -1:
            return (), ()
        for _ in range(self._size(name, count, 6)):
            connector = self.string()
            size = self._size(f"tasks of {connector!r}", self.number(_INT32), 4)
            numbers = struct.unpack_from(f">{size}i", self._data, self._at)
            self._at += 4 * size
            for number in numbers:
                if number == CONNECTOR_TASK:
                    connectors.append(connector)
                else:
                    tasks.append(ConnectorTaskId(connector, number))
        return tuple(connectors), tuple(tasks)

    def number(self, kind: struct.Struct) -> int:
        try:
            number: int = kind.unpack_from(self._data, self._at)[0]
        except struct.error:
            raise DecodeError(
                f"the {len(self._data)} bytes of the {self._what} end within the field at byte {self._at}"
            ) from None
        self._at += kind.size
        return number

    def _size(self, name: str, size: int, least: int) -> int:
        """Check a count against the bytes left, at `least` bytes for each element."""
        left = len(self._data) - self._at
        if not 0 <= size <= left // least:
            raise DecodeError(
                f"{name!r} of the {self._what} has the size {size} with {left} bytes left"
            )
        return size
