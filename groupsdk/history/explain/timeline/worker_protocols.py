"""Decode the metadata and assignments of classic groups other than consumer groups.

Connect's workers assign connectors and their tasks (KIP-415), `ShardWorker`s shards; those of Schema Registry and of
`groupsdk.election` elect a leader. The data of any other group is opaque: the tables have only its
sizes and digests, which show which members have equal data and when it changed.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

from groupsdk.errors import DecodeError
from groupsdk.history.explain.timeline.member import CACHED, Partitions, in_order
from groupsdk.limits import MAX_INT32
from groupsdk.wire.connect_protocol import (
    CONNECT_PROTOCOL_TYPE,
    CONNECTOR_TASK,
    COOPERATIVE_VERSION,
    ConnectAssignment,
    ConnectorTaskId,
    decode_assignment,
    decode_metadata,
)
from groupsdk.wire.consumer_protocol import is_subscription
from groupsdk.wire.shards.names import split_name
from groupsdk.wire.shards.protocol import (
    PROTOCOL_NAME,
    decode_assignment as decode_shards,
    decode_member,
)


CONNECT: Final = CONNECT_PROTOCOL_TYPE
SHARDS: Final = PROTOCOL_NAME
SCHEMA_REGISTRY: Final = "sr"
LEADER_ELECTION: Final = "leader-election"
LEADERSHIP: Final = "leadership"
"""Stands for the topic of a group that elects a leader, who has its partition 0."""
COOPERATIVE_CONNECT: Final = ("compatible", "sessioned")
"""The names of Connect's protocols whose workers give up only what moves; that of the eager one is `default`."""
_DIGITS: Final = 16


class Payload(NamedTuple):
    """A member's metadata and assignment, as far as they can be decoded."""

    url: str | None
    config_offset: int | None
    """The offset up to which a Connect worker had read the config topic when it joined."""
    delay_ms: int | None
    """After how many milliseconds a Connect worker must rejoin to get the work that is held back; 0 for never."""
    metadata_bytes: int
    metadata_digest: str | None
    """The beginning of the SHA-256 of the metadata."""

    assignment_bytes: int
    assignment_digest: str | None
    weight: float | None = None
    """The weights of a `ShardWorker`'s shards, in all; None: its assignment names none, as all are 1 or it would be too large."""
    standbys: tuple[str, ...] | None = None
    """The shards for which a `ShardWorker` stands by."""


class Work(NamedTuple):
    """The work of a member, in the form of partitions: for Connect, task numbers by connector name, with -1 for the connector itself."""

    owned: Partitions
    assigned: Partitions
    payload: Payload
    problem: str | None = None


def work_of(
    protocol_type: str, member_id: str, metadata: bytes, assignment: bytes, protocol: str = ""
) -> Work:
    read = _shards if protocol == SHARDS else _READERS.get(protocol_type)
    sizes = len(metadata), len(assignment)
    payload = Payload(None, None, None, sizes[0], _digest(metadata), sizes[1], _digest(assignment))
    if read is None:
        return Work((), (), payload)
    try:
        return read(member_id, metadata, assignment, payload)
    except DecodeError as error:
        return Work((), (), payload, str(error))


def sends_subscription(protocol_type: str, metadata: bytes) -> bool:
    """Return whether a member of a classic group of a type of its own is a consumer (`group.protocol.type`)."""
    return protocol_type not in _READERS and _is_subscription(metadata)


_is_subscription: Final = lru_cache(maxsize=CACHED)(is_subscription)


@lru_cache(maxsize=CACHED)
def _digest(data: bytes) -> str | None:
    return sha256(data).hexdigest()[:_DIGITS] if data else None


def _connect(member_id: str, metadata: bytes, assignment: bytes, payload: Payload) -> Work:
    """Return the work that a worker runs: under the cooperative protocols, assignments add to its previous work."""
    del member_id
    state = decode_metadata(metadata) if metadata else None
    given = decode_assignment(assignment) if assignment else ConnectAssignment()
    held: set[tuple[str, int]] = set()
    if state is not None and state.assignment is not None:
        held = _places(state.assignment.connectors, state.assignment.tasks)
    revoked = _places(given.revoked_connectors, given.revoked_tasks)
    new = _places(given.connectors, given.tasks)
    adds = int.from_bytes(assignment[:2], signed=True) >= COOPERATIVE_VERSION
    # an error says to take nothing up
    has = held if given.failed else (held - revoked) | new if adds else new
    return Work(
        _partitions(held),
        _partitions(has),
        payload._replace(
            url=None if state is None else state.url or None,
            config_offset=None if state is None else state.offset,
            delay_ms=given.delay_ms,
        ),
    )


def _places(connectors: Iterable[str], tasks: Iterable[ConnectorTaskId]) -> set[tuple[str, int]]:
    return {*((name, CONNECTOR_TASK) for name in connectors), *map(tuple, tasks)}  # type: ignore[arg-type] # pairs


def _partitions(places: Iterable[tuple[str, int]]) -> Partitions:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for name, number in places:
        found[name].append(number)
    return in_order(found.items())


def _shards(member_id: str, metadata: bytes, assignment: bytes, payload: Payload) -> Work:
    del member_id
    owned: Partitions = ()
    if metadata:
        state = decode_member(metadata)
        owned = _numbered((*state.held, *state.releasing))
        payload = payload._replace(url=state.endpoint or None)
    if not assignment:
        return Work(owned, (), payload)
    given = decode_shards(assignment)
    weight = sum(given.weights.get(name, 1.0) for name in given.owned) if given.weights else None
    payload = payload._replace(weight=weight, standbys=tuple(sorted(given.standbys)))
    return Work(owned, _numbered(given.owned), payload)


def _numbered(names: Iterable[str]) -> Partitions:
    return _partitions(_numbered_name(name) for name in names)


@lru_cache(maxsize=CACHED)
def _numbered_name(name: str) -> tuple[str, int]:
    """Return a name as a topic and a partition, so that both together are the name."""
    split = split_name(name)
    if split is not None:
        prefix, width, number = split
        if prefix.endswith("-") and len(prefix) > 1 and not width and number <= MAX_INT32:
            return prefix[:-1], number
    return name, CONNECTOR_TASK


def _schema_registry(member_id: str, metadata: bytes, assignment: bytes, payload: Payload) -> Work:
    identity, assigned = _fields(metadata), _fields(assignment)
    host, port = identity.get("host"), identity.get("port")
    url = None if host is None else f"{identity.get('scheme', 'http')}://{host}:{port}"
    return _elected(assigned.get("master") == member_id, payload._replace(url=url))


def _leader_election(member_id: str, metadata: bytes, assignment: bytes, payload: Payload) -> Work:
    return _elected(_fields(assignment).get("leader_id") == member_id, payload)


def _elected(leads: bool, payload: Payload) -> Work:
    return Work((), ((LEADERSHIP, (0,)),) if leads else (), payload)


def _fields(data: bytes) -> Mapping[str, Any]:
    """Parse a JSON object; an empty assignment has none."""
    if not data:
        return {}
    try:
        found = json.loads(data)
    except ValueError as error:
        raise DecodeError(f"{len(data)} bytes are not JSON: {error}") from error
    if not isinstance(found, dict):
        raise DecodeError(f"{len(data)} bytes are not a JSON object but {type(found).__name__}")
    return found


_READERS: Final[Mapping[str, Callable[[str, bytes, bytes, Payload], Work]]] = {
    CONNECT: _connect,
    SCHEMA_REGISTRY: _schema_registry,
    LEADER_ELECTION: _leader_election,
}
