"""Encode and decode consumers' subscriptions and assignments: protocol type "consumer" (`ConsumerProtocol`).

A version number of two bytes, then the fields; versions 0 to 3 of both messages. All versions are written as
Kafka's own clients write them, byte for byte. Reading is tolerant, as other members are other people's programs:
a newer version is read as the newest known, bytes after the last field are passed over, and fields after the
user data may be missing at the end, whatever the version says.
"""

import re
import struct
from collections.abc import Generator, Mapping, Sequence
from dataclasses import field

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.lazy_dataclasses import dataclass
from groupsdk.limits import MAX_STRING_BYTES
from groupsdk.utf16 import utf16_sorted


CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of groups of consumers."""

MAX_VERSION = 3
"""The newest version of both messages; 1 has owned partitions, 2 the generation, 3 the rack."""

TopicPartitions = Mapping[str, Sequence[int]]

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_TOPICS_IN_A_STEP = 4_096
_HEAD_BYTES = 48
_LISTS_PER_HEAD = 8
_DECODE_FAILURES = (struct.error, UnicodeDecodeError)
_ENCODE_FAILURES = (struct.error, UnicodeEncodeError, AttributeError, TypeError)


@dataclass(frozen=True, slots=True)
class ConsumerProtocolSubscription:
    """A member's subscription, sent to the leader.

    Attributes:
        owned_partitions: what it owns, from version 1 on.
        generation_id: the generation in which it got them, from version 2 on; -1 for none.
        rack_id: where it runs, from version 3 on.
    """

    topics: Sequence[str] = ()
    user_data: bytes | None = None
    owned_partitions: TopicPartitions = field(default_factory=dict)
    generation_id: int = -1
    rack_id: str | None = None


@dataclass(frozen=True, slots=True)
class ConsumerProtocolAssignment:
    """A member's assignment from the leader; all versions have the same fields.

    `assigned_partitions` has the partition numbers by topic, and `user_data` bytes of the assignor's own, None for none.
    """

    assigned_partitions: TopicPartitions = field(default_factory=dict)
    user_data: bytes | None = None


class ConsumerProtocolDecoder:
    """Decode the messages of one group's members; equal names and equal lists of topics become one object.

    It keeps all names that it has seen, so use a new one for each rebalance. Not thread-safe.
    """

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._lists: dict[bytes, tuple[str, ...]] = {}
        self._by_head: dict[bytes, list[bytes]] = {}

    def subscription(self, data: bytes) -> ConsumerProtocolSubscription:
        """Decode a subscription.

        Raises DecodeError if `data` is not a subscription, or is truncated.
        """
        at = 0
        try:
            version, at = _version(data), 2
            topics, at = self._topics(data, at)
            user_data, at = _user_data(data, at)
            # some clients write version 1 without owned partitions: what is missing at the end is empty
            end = len(data)
            owned: TopicPartitions = {}
            generation_id, rack_id = -1, None
            if version >= 1 and at < end:
                owned, at = self._partitions(data, at, "owned_partitions")
            if version >= 2 and at < end:
                generation_id, at = max(-1, _INT32.unpack_from(data, at)[0]), at + 4
            if version >= 3 and at < end:
                rack_id = _rack(data, at)
        except _DECODE_FAILURES as error:
            raise _failed("subscription", data, at, error) from error
        return ConsumerProtocolSubscription(topics, user_data, owned, generation_id, rack_id)

    def subscription_in_steps(
        self, data: bytes
    ) -> Generator[None, None, ConsumerProtocolSubscription]:
        """Decode a subscription to very many topics in steps; raises as `subscription`."""
        try:
            left, at = _count(data, 2, 2, "topics")
            topics: list[str] = []
            while left > 0:
                some = min(left, _TOPICS_IN_A_STEP)
                at = self._read_topics(data, at, some, topics)
                left -= some
                yield
            self._keep(data[2 : 2 + _HEAD_BYTES], data[2:at], topics)
        except _DECODE_FAILURES:
            pass  # raised again, with what was wrong
        return self.subscription(data)

    def assignment(self, data: bytes) -> ConsumerProtocolAssignment:
        """Decode an assignment.

        Raises DecodeError if `data` is not an assignment, or is truncated.
        """
        at = 0
        try:
            _, at = _version(data), 2
            assigned, at = self._partitions(data, at, "assigned_partitions")
            user_data, at = _user_data(data, at)
        except _DECODE_FAILURES as error:
            raise _failed("assignment", data, at, error) from error
        return ConsumerProtocolAssignment(assigned, user_data)

    def _topics(self, data: bytes, start: int) -> tuple[tuple[str, ...], int]:
        """Read a list of topics, or recognise one that was read before by its bytes."""
        head = data[start : start + _HEAD_BYTES]
        for known in self._by_head.get(head, ()):
            # the bytes say where the list ends, so a list that starts with another is that other
            if data.startswith(known, start):
                return self._lists[known], start + len(known)
        count, at = _count(data, start, 2, "topics")
        topics: list[str] = []
        at = self._read_topics(data, at, count, topics)
        return self._keep(head, data[start:at], topics), at

    def _keep(self, head: bytes, encoded: bytes, topics: Sequence[str]) -> tuple[str, ...]:
        alike = self._by_head.setdefault(head, [])
        if len(alike) < _LISTS_PER_HEAD:
            alike.append(encoded)
        return self._lists.setdefault(encoded, tuple(topics))

    def _read_topics(self, data: bytes, at: int, count: int, topics: list[str]) -> int:
        known, unpack = self._names, _INT16.unpack_from
        # written out, as a member may subscribe to very many topics
        for _ in range(count):
            stop = at + 2 + unpack(data, at)[0]
            name = known.get(data[at + 2 : stop])
            if name is None or stop < at + 2:
                name, stop = self._name(data, at)
            topics.append(name)
            at = stop
        return at

    def _name(self, data: bytes, at: int) -> tuple[str, int]:
        (length,) = _INT16.unpack_from(data, at)
        at += 2
        stop = at + length
        encoded = data[at:stop]
        if len(encoded) != length:
            raise DecodeError(
                f"a name of {length} bytes at byte {at}, where {len(data)} end the data"
            )
        name = self._names.get(encoded)
        if name is None:
            name = self._names[encoded] = encoded.decode()
        return name, stop

    def _partitions(
        self, data: bytes, at: int, what: str
    ) -> tuple[dict[str, tuple[int, ...]], int]:
        count, at = _count(data, at, 6, what)
        partitions: dict[str, tuple[int, ...]] = {}
        again: dict[str, list[int]] = {}
        known, end = self._names, len(data)
        # written out, as the leader spends most of its time with a large group in this loop
        for _ in range(count):
            stop = at + 2 + _INT16.unpack_from(data, at)[0]
            name = known.get(data[at + 2 : stop])
            if name is None or stop < at + 2:
                name, stop = self._name(data, at)
            (size,) = _INT32.unpack_from(data, stop)
            at = stop + 4
            if not 0 <= size <= (end - at) >> 2:
                raise _wrong_count(name, size, end - at)
            numbers = struct.unpack_from(f">{size}i", data, at)
            at += 4 * size
            if name in partitions:
                again.setdefault(name, []).extend(numbers)
            else:
                partitions[name] = numbers
        for name, numbers_again in again.items():
            partitions[name] += tuple(numbers_again)
        return partitions, at


def is_subscription(data: bytes) -> bool:
    """Return whether bytes are a consumer's subscription to at least one topic, and nothing else.

    For groups of other types than "consumer", whose members may be consumers too (`group.protocol.type`) or send
    anything else. Stricter than the decoder: a known version, legal names of topics, and no byte left over.
    """
    try:
        read = ConsumerProtocolDecoder().subscription(data)
        (version,) = _INT16.unpack_from(data)
        whole = len(ConsumerProtocolEncoder().subscription(read, version)) == len(data)
    except (DecodeError, EncodeError):
        return False
    return whole and bool(read.topics) and all(map(_TOPIC.fullmatch, read.topics))


class ConsumerProtocolEncoder:
    """Write the messages of one group; remembers how names are written.

    Use a new one for each rebalance. Not for several threads at a time.
    """

    def __init__(self) -> None:
        self._names: dict[str, bytes] = {}
        self._structs: dict[int, struct.Struct] = {}

    def subscription(
        self, subscription: ConsumerProtocolSubscription, version: int = MAX_VERSION
    ) -> bytes:
        """Write a subscription: topics, owned topics and their partitions sorted, as Kafka's clients do.

        Raises EncodeError if a value does not fit its field, or there is no such version.
        """
        _check_version(version)
        try:
            topics = utf16_sorted(subscription.topics)
            owned = subscription.owned_partitions
            parts = [_INT16.pack(version), _INT32.pack(len(topics)), *map(self._name, topics)]
            parts += _bytes(subscription.user_data)
            if version >= 1:
                parts += self._partitions({t: sorted(owned[t]) for t in utf16_sorted(owned)})
            if version >= 2:
                parts.append(_INT32.pack(max(-1, subscription.generation_id)))
            if version >= 3:
                rack = subscription.rack_id
                parts.append(_INT16.pack(-1) if rack is None else self._name(rack))
            return b"".join(parts)
        except _ENCODE_FAILURES as error:
            raise EncodeError(f"cannot encode the subscription: {error}") from error

    def assignment(
        self, assignment: ConsumerProtocolAssignment, version: int = MAX_VERSION
    ) -> bytes:
        """Write an assignment, in its own order; topics without partitions are left out.

        Raises EncodeError if a value does not fit its field, or there is no such version.
        """
        _check_version(version)
        try:
            parts = [_INT16.pack(version), *self._partitions(assignment.assigned_partitions)]
            return b"".join([*parts, *_bytes(assignment.user_data)])
        except _ENCODE_FAILURES as error:
            raise EncodeError(f"cannot encode the assignment: {error}") from error

    def _name(self, name: str) -> bytes:
        known = self._names.get(name)
        if known is None:
            encoded = name.encode()
            if len(encoded) > MAX_STRING_BYTES:
                raise EncodeError(
                    f"the name {name[:40]!r}... has {len(encoded)} bytes in UTF-8, over the limit of "
                    f"{MAX_STRING_BYTES}"
                )
            known = self._names[name] = _INT16.pack(len(encoded)) + encoded
        return known

    def _partitions(self, partitions: TopicPartitions) -> list[bytes]:
        parts = [b""]
        names, structs = self._names, self._structs
        for topic, numbers in partitions.items():
            size = len(numbers)
            if not size:
                continue
            packing = structs.get(size)
            if packing is None:
                packing = structs[size] = struct.Struct(f">{size + 1}i")
            name = names.get(topic)
            parts.append(self._name(topic) if name is None else name)
            parts.append(packing.pack(size, *numbers))
        parts[0] = _INT32.pack(len(parts) // 2)
        return parts


def _version(data: bytes) -> int:
    (version,) = _INT16.unpack_from(data)
    if version < 0:
        raise DecodeError(
            f"the version of the consumer protocol must not be negative, but is {version}"
        )
    return int(version)


def _count(data: bytes, at: int, least: int, what: str) -> tuple[int, int]:
    """Read the count of an array, which must fit into the bytes left at `least` bytes for each element."""
    (count,) = _INT32.unpack_from(data, at)
    at += 4
    if not 0 <= count <= (len(data) - at) // least:
        raise _wrong_count(what, count, len(data) - at)
    return count, at


def _wrong_count(what: str, count: int, left: int) -> DecodeError:
    return DecodeError(f"{what!r} has the count {count} with {left} bytes left")


def _user_data(data: bytes, at: int) -> tuple[bytes | None, int]:
    (length,) = _INT32.unpack_from(data, at)
    if length == -1:
        return None, at + 4
    length, at = _count(data, at, 1, "user_data")
    return data[at : at + length], at + length


def _rack(data: bytes, at: int) -> str | None:
    (length,) = _INT16.unpack_from(data, at)
    at += 2
    if not -1 <= length <= len(data) - at:
        raise DecodeError(f"'rack_id' has the length {length} with {len(data) - at} bytes left")
    # Kafka takes an empty rack for none
    return data[at : at + length].decode() if length > 0 else None


def _bytes(value: bytes | None) -> tuple[bytes, ...]:
    return (_INT32.pack(-1),) if value is None else (_INT32.pack(len(value)), value)


def _failed(what: str, data: bytes, at: int, error: Exception) -> DecodeError:
    if isinstance(error, UnicodeDecodeError):
        return DecodeError(f"the {what} has a string at or after byte {at} that is not valid UTF-8")
    return DecodeError(
        f"the {len(data)} bytes of the {what} end within the field at or after byte {at}"
    )


def _check_version(version: int) -> None:
    if not 0 <= version <= MAX_VERSION:
        raise EncodeError(
            f"the version of the consumer protocol must be from 0 to {MAX_VERSION}, not {version}"
        )
