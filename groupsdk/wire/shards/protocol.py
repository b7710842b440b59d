"""What members of a group with shards say to the leader, and what it answers: values, and their bytes.

The bytes are described in docs/shards-format.md. Newer versions only add fields at the end, which older readers leave
alone.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Final
from zlib import crc32

from groupsdk.errors import EncodeError
from groupsdk.wire.shards.fields import GREATEST_STRING, Reader, Writer
from groupsdk.wire.shards.names import read_names, write_names


PROTOCOL_NAME: Final = "shards"
"""The name under which members offer this protocol; its version is in the bytes."""
NO_INCARNATION: Final = -1
VERSION: Final = 0
"""The version that is written, unless there is something to say that only a newer one has."""
WEIGHTS_VERSION: Final = 1
"""The version of an assignment from which on it has weights."""
GREATEST_EPOCH: Final = 2**53 - 1
GREATEST_WEIGHT: Final = 1e15
"""The greatest weight of a shard, and the greatest load that can be reported."""
GREATEST_AGAIN_MS: Final = 60_000
"""The longest time after which a leader can have members join again."""
GENERATION_BITS: Final = 21
"""An epoch is the incarnation, moved left by so many bits, plus the generation."""

_INT16 = struct.Struct(">h")
_UINT32 = struct.Struct(">I")
_UINT64 = struct.Struct(">Q")
_FLOAT32 = struct.Struct(">f")
_FLOAT64 = struct.Struct(">d")
_DRAINING = 1
_UNBROKEN = 2


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a member knows the group's epochs: the greatest incarnation, and the last generation under it."""

    incarnation: int = NO_INCARNATION
    generation: int = -1
    unbroken: bool = True
    """Whether the member has been in the group ever since. Once it has lost its membership, the coordinator may have
    begun another life of the group meanwhile, whose generations started again: then its knowledge is only a lower bound."""


@dataclass(frozen=True, slots=True)
class MemberState:
    """What a member says when it joins."""

    progress: Progress = field(default=Progress())
    held: Mapping[str, int] = field(default_factory=dict)
    """What it works on and keeps unless told otherwise: shard to epoch."""
    releasing: Mapping[str, int] = field(default_factory=dict)
    """What it was told to give up and has not yet stopped: shard to epoch. Nobody else may have it."""
    standbys: Mapping[str, bool] = field(default_factory=dict)
    """What it stands by for: shard to whether it is ready."""
    loads: Mapping[str, float] = field(default_factory=dict)
    """The smoothed loads of shards that it has measured."""
    endpoint: str = ""
    """Where its shards are served, for `ShardDirectory`; "": nowhere."""
    zone: str | None = None
    capabilities: frozenset[str] = frozenset()
    capacity: float = 1.0
    """How much it can bear relative to the others."""
    max_shards: int | None = None
    draining: bool = False
    instance_id: str | None = None
    """The group.instance.id of a static member, so that people can be shown it."""
    client_id: str = ""
    size: int = field(default=0, compare=False)
    """How many bytes it was read from; 0: it was not."""


@dataclass(frozen=True, slots=True)
class ShardAssignment:
    """What the leader tells one member."""

    incarnation: int
    generation: int
    """The generation that it was made for."""
    owned: Mapping[str, int] = field(default_factory=dict)
    """What the member keeps and gains: shard to epoch. What it holds and is not named here, it releases."""
    standbys: tuple[str, ...] = ()
    shard_count: int = 0
    """How many shards the leader's list has."""
    shard_digest: int = 0
    """A digest of the leader's list, by which a new leader notices that its own differs."""
    unplaceable: int = 0
    """How many shards could be given to nobody."""
    pending: int = 0
    """How many shards their next owners were not given yet, because others still have to release them; over 0 as well for
    a member that drains. A further rebalance has to come, which a static member that returned meanwhile asks for."""
    again_ms: int | None = None
    """After how many milliseconds the member joins again, unless it has something to release: then as soon as it has.
    None: when it hears of a rebalance."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """The weights of its shards that have another than 1, for people: they decide nothing."""
    role_digest: int = 0
    """`role_digest` of what the leader knew of the member, by which a static one that returns notices that it has changed."""
    error: str = ""
    """Why the leader could not plan, so that everybody keeps what it claims; "" if it could."""


def epoch_of(incarnation: int, generation: int) -> int:
    """Return the epoch of the leases that are given in a generation."""
    return (incarnation << GENERATION_BITS) + generation


def role_digest(state: MemberState) -> int:
    """Return a digest of what decides what a member may own: zone, capabilities, capacity and max shards."""
    writer = Writer()
    _write_role(writer, state)
    return crc32(writer.finish())


def encode_member(state: MemberState) -> bytes:
    """Encode a member's metadata.

    Raises EncodeError if a value does not fit its field, or there are too many.
    """
    writer = Writer()
    writer.fixed(_INT16, VERSION)
    _write_progress(writer, state.progress.incarnation, state.progress.generation)
    writer.uvarint(
        (_DRAINING if state.draining else 0) | (_UNBROKEN if state.progress.unbroken else 0)
    )
    writer.string(state.client_id, "a client.id")
    writer.nullable_string(state.instance_id, "a group.instance.id")
    writer.string(state.endpoint, "an endpoint")
    _write_role(writer, state)
    order = _write_leases(writer, state.held)
    _write_leases(writer, state.releasing)
    standbys = write_names(writer, state.standbys)
    writer.bits([state.standbys[name] for name in standbys], 1)
    _write_loads(writer, state.loads, order)
    return writer.finish()


def decode_member(data: bytes) -> MemberState:
    """Decode a member's metadata.

    Raises DecodeError if it is not that; no more is set aside than the bounds in `groupsdk.wire.shards.names` say.
    """
    reader = Reader(data, "the metadata of a member with shards")
    _read_version(reader)
    incarnation, generation = _read_progress(reader)
    flags = reader.uvarint()
    client_id, instance_id = reader.string(), reader.nullable_string()
    endpoint, zone = reader.string(), reader.nullable_string()
    capabilities = frozenset(reader.strings())
    (capacity,) = reader.fixed(_FLOAT64)
    if not (isfinite(capacity) and capacity > 0):
        raise reader.wrong(f"the capacity must be over 0, not {capacity}")
    limit = reader.uvarint()
    held, releasing = _read_leases(reader), _read_leases(reader)
    standbys = read_names(reader)
    ready = [bool(bit) for bit in reader.bits(len(standbys), 1)]
    return MemberState(
        progress=Progress(incarnation, generation, bool(flags & _UNBROKEN)),
        held=held,
        releasing=releasing,
        standbys=dict(zip(standbys, ready, strict=True)),
        loads=_read_loads(reader, list(held)),
        endpoint=endpoint,
        zone=zone,
        capabilities=capabilities,
        capacity=capacity,
        max_shards=None if limit == 0 else limit - 1,
        draining=bool(flags & _DRAINING),
        instance_id=instance_id,
        client_id=client_id,
        size=len(data),
    )


def encode_assignment(assignment: ShardAssignment) -> bytes:
    """Encode what the leader tells one member.

    Raises EncodeError if a value does not fit its field, or there are too many.
    """
    writer = Writer()
    writer.fixed(_INT16, WEIGHTS_VERSION if assignment.weights else VERSION)
    _write_progress(writer, assignment.incarnation, assignment.generation)
    writer.uvarint(assignment.shard_count)
    writer.fixed(_UINT64, assignment.shard_digest)
    writer.uvarint(assignment.unplaceable)
    writer.uvarint(assignment.pending)
    writer.uvarint(0 if assignment.again_ms is None else assignment.again_ms + 1)
    writer.fixed(_UINT32, assignment.role_digest)
    writer.string(_shortened(assignment.error), "an error")
    order = _write_leases(writer, assignment.owned)
    write_names(writer, assignment.standbys)
    if assignment.weights:
        _write_weights(writer, assignment.weights, order)
    return writer.finish()


def decode_assignment(data: bytes) -> ShardAssignment:
    """Decode what the leader tells one member.

    Raises:
        DecodeError: it is not that; no more is set aside than the bounds in `groupsdk.wire.shards.names` say.
    """
    reader = Reader(data, "an assignment of shards")
    version = _read_version(reader)
    incarnation, generation = _read_progress(reader)
    shard_count = reader.uvarint()
    digest: int = _UINT64.unpack(reader.raw(_UINT64.size))[0]
    unplaceable, pending = reader.uvarint(), reader.uvarint()
    again = reader.count("milliseconds until a rejoin", GREATEST_AGAIN_MS + 1)
    role: int = _UINT32.unpack(reader.raw(_UINT32.size))[0]
    error = reader.string()
    owned, standbys = _read_leases(reader), tuple(read_names(reader))
    return ShardAssignment(
        incarnation=incarnation,
        generation=generation,
        owned=owned,
        standbys=standbys,
        shard_count=shard_count,
        shard_digest=digest,
        unplaceable=unplaceable,
        pending=pending,
        again_ms=None if again == 0 else again - 1,
        weights={} if version < WEIGHTS_VERSION else _read_weights(reader, list(owned)),
        role_digest=role,
        error=error,
    )


def _write_role(writer: Writer, state: MemberState) -> None:
    writer.nullable_string(state.zone, "a zone")
    writer.strings(sorted(state.capabilities), "capabilities")
    writer.fixed(_FLOAT64, state.capacity)
    writer.uvarint(0 if state.max_shards is None else state.max_shards + 1)


def _read_version(reader: Reader) -> float:
    (version,) = reader.fixed(_INT16)
    if version < VERSION:
        raise reader.wrong(f"versions start at {VERSION}, not at {version:.0f}")
    return version


def _write_progress(writer: Writer, incarnation: int, generation: int) -> None:
    writer.uvarint(incarnation + 1)
    writer.uvarint(generation + 1)


def _read_progress(reader: Reader) -> tuple[int, int]:
    return reader.count("as an incarnation", 1 << 32) - 1, reader.count(
        "as a generation", 1 << 31
    ) - 1


def _write_leases(writer: Writer, leases: Mapping[str, int]) -> list[str]:
    """Write names, the different epochs, and for each name the place of its epoch among these; return the names."""
    order = write_names(writer, leases)
    epochs = sorted(set(leases.values()))
    writer.uvarint(len(epochs))
    before = 0
    for epoch in epochs:
        if epoch > GREATEST_EPOCH:
            raise EncodeError(f"an epoch must be below 2**53, not {epoch}")
        writer.uvarint(epoch - before)
        before = epoch
    if len(epochs) > 1:
        place = {epoch: place for place, epoch in enumerate(epochs)}
        writer.bits([place[leases[name]] for name in order], _width(len(epochs)))
    return order


def _read_leases(reader: Reader) -> dict[str, int]:
    names = read_names(reader)
    epochs: list[int] = []
    epoch = 0
    for _ in range(reader.count("epochs", len(names))):
        epoch += reader.uvarint()
        if epoch > GREATEST_EPOCH:
            raise reader.wrong(f"an epoch must be below 2**53, not {epoch}")
        epochs.append(epoch)
    if names and not epochs:
        raise reader.wrong(f"{len(names)} names have no epoch")
    try:
        held = [epochs[place] for place in reader.bits(len(names), _width(len(epochs)))]
    except IndexError:
        raise reader.wrong("a name has an epoch that is not there") from None
    return dict(zip(names, held, strict=True))


def _width(count: int) -> int:
    return max(count - 1, 0).bit_length()


def _write_loads(writer: Writer, loads: Mapping[str, float], held: Sequence[str]) -> None:
    """Write whether there are any, which of the held shards have one, which others, and all in this order as bfloat16."""
    writer.uvarint(bool(loads))
    if not loads:
        return
    writer.bits([name in loads for name in held], 1)
    others = write_names(writer, loads.keys() - set(held))
    for name in (*(name for name in held if name in loads), *others):
        load = loads[name]
        if not 0 <= load <= GREATEST_WEIGHT:
            raise EncodeError(
                f"the load of shard {name!r} must be 0 to {GREATEST_WEIGHT:g}, not {load!r}"
            )
        # rounded to the nearest of the numbers whose lower two bytes are zero
        bits = int.from_bytes(_FLOAT32.pack(load)) + 0x7FFF
        writer.raw((bits >> 16).to_bytes(2))


def _read_loads(reader: Reader, held: Sequence[str]) -> dict[str, float]:
    if not reader.count("lists of loads", 1):
        return {}
    flags = reader.bits(len(held), 1)
    names = [name for name, flag in zip(held, flags, strict=True) if flag]
    names += read_names(reader)
    data = reader.raw(2 * len(names))
    loads: dict[str, float] = {}
    for place, name in enumerate(names):
        (load,) = _FLOAT32.unpack(data[2 * place : 2 * place + 2] + b"\0\0")
        if not 0 <= load <= 2 * GREATEST_WEIGHT:
            raise reader.wrong(
                f"the load of shard {name!r} must be 0 to {GREATEST_WEIGHT:g}, not {load}"
            )
        loads[name] = min(load, GREATEST_WEIGHT)
    return loads


def weights_bytes(assignment: ShardAssignment) -> int:
    """Return how many bytes an assignment has more for its weights."""
    if not assignment.weights:
        return 0
    writer = Writer()
    known = len(set(assignment.weights.values()))
    writer.uvarint(known)
    bits = len(assignment.owned) * _width(known + 1)
    return len(writer.finish()) + known * _FLOAT64.size + -(-bits // 8)


def _write_weights(writer: Writer, weights: Mapping[str, float], owned: Sequence[str]) -> None:
    """Write the different weights, and for each shard that is owned the place of its own among these; 0 for a weight of 1."""
    known = sorted(set(weights.values()))
    writer.uvarint(len(known))
    for weight in known:
        if not 0 < weight <= GREATEST_WEIGHT:
            raise EncodeError(
                f"a weight must be over 0 and at most {GREATEST_WEIGHT:g}, not {weight!r}"
            )
        writer.fixed(_FLOAT64, weight)
    place = {weight: place for place, weight in enumerate(known, 1)}
    places = [place[weights[name]] if name in weights else 0 for name in owned]
    writer.bits(places, _width(len(known) + 1))


def _read_weights(reader: Reader, owned: Sequence[str]) -> dict[str, float]:
    known = [1.0]
    for _ in range(reader.count("weights", len(owned))):
        known += reader.fixed(_FLOAT64)
        if not 0 < known[-1] <= GREATEST_WEIGHT:
            raise reader.wrong(
                f"a weight must be over 0 and at most {GREATEST_WEIGHT:g}, not {known[-1]}"
            )
    places = reader.bits(len(owned), _width(len(known)))
    if max(places, default=0) >= len(known):
        raise reader.wrong("a shard has a weight that is not there")
    return {name: known[place] for name, place in zip(owned, places, strict=True) if place}


def _shortened(error: str) -> str:
    """Return as much of a message as fits; it is for people."""
    data = error.encode("utf-8", "replace")[:GREATEST_STRING]
    return data.decode("utf-8", "ignore")
