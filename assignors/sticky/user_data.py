"""The user data of `sticky` and `cooperative-sticky` on the wire, as Kafka's classes write them.

`sticky` (KIP-54, KIP-341) sends what the member had, and since when: an array of topics, each with its
partitions, then the generation, which version 0 lacks. `cooperative-sticky` sends the generation alone.
kafka-python 3 writes the same as Java after two bytes for the version, which Java never wrote. Numbers are big-endian and of 4 bytes, lengths of strings of 2.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from struct import Struct, pack, unpack_from

from groupsdk.assignment import Partitions
from groupsdk.lazy_imports import override


logger = logging.getLogger(__name__)
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_NO_GENERATION = -1
_VERSION = b"\0\1"
"""What kafka-python 3 writes first. In Java's format this is half of the number of topics."""

_FIRST_NAME = 6
"""Where the name of the first topic begins."""


class UserDataError(ValueError):
    """User data that cannot be parsed; the message says what is wrong, and where."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The partitions that a member claims to own."""

    partitions: Partitions
    generation_id: int = _NO_GENERATION
    """-1: unknown."""


NO_CLAIM = Claim({})


def encode_claim(partitions: Mapping[str, Sequence[int]], generation_id: int) -> bytes:
    """Encode the user data of `sticky`, version 1; topics in the order of the mapping."""
    parts = [_INT32.pack(len(partitions))]
    for topic, numbers in partitions.items():
        name = topic.encode()
        parts += (_INT16.pack(len(name)), name)
        parts.append(pack(f">{len(numbers) + 1}i", len(numbers), *numbers))
    parts.append(_INT32.pack(generation_id))
    return b"".join(parts)


def encode_claim_again(data: bytes, generation_id: int) -> bytes:
    """Return the user data of `sticky` for the same partitions in another generation."""
    return data[: -_INT32.size] + _INT32.pack(generation_id)


def decode_claim(data: bytes, names: dict[bytes, str] | None = None) -> Claim:
    """Read the user data of `sticky`, version 1 or 0, with or without kafka-python's version before it.

    Bytes after the last field are ignored. Bytes that can be read as Java wrote them are read so. No more is read, or set aside,
    than there are bytes. Raises UserDataError if it is neither.
    """
    known = {} if names is None else names
    try:
        return _decode(data, known)
    except UserDataError:
        if data[:2] != _VERSION:
            raise
        try:
            return _decode(data[2:], known)
        except UserDataError:
            # The error of the format that most clients write says more.
            pass
        raise


def _decode(data: bytes, known: dict[bytes, str]) -> Claim:
    size = len(data)
    if size < 4:
        raise UserDataError(f"ends at byte {size} in the number of topics")
    (count,) = _INT32.unpack_from(data, 0)
    at = 4
    if not 0 <= count <= size - at:
        raise UserDataError(f"{count} topics at byte 0 of {size}")
    partitions: dict[str, tuple[int, ...]] = {}
    for _ in range(count):
        start = at + 2
        if start > size:
            raise UserDataError(f"ends at byte {size} in the length of a topic")
        (length,) = _INT16.unpack_from(data, at)
        end = start + length
        at = end + 4
        if length < 0 or at > size:
            raise UserDataError(f"topic of {length} bytes at byte {start} of {size}")
        name = data[start:end]
        topic = known.get(name)
        if topic is None:
            topic = known[name] = _text(name, start)
        (number,) = _INT32.unpack_from(data, end)
        if not 0 <= number <= (size - at) // 4:
            raise UserDataError(f"{number} partitions at byte {end} of {size}")
        if number == 1:
            numbers = _INT32.unpack_from(data, at)
        else:
            numbers = unpack_from(f">{number}i", data, at)
        at += 4 * number
        partitions[topic] = (*partitions[topic], *numbers) if topic in partitions else numbers
    if size - at < 4:
        # Version 0; Java tells them apart by nothing else either.
        return Claim(partitions)
    return Claim(partitions, _INT32.unpack_from(data, at)[0])


def _text(name: bytes, start: int) -> str:
    try:
        return str(name, "utf-8")
    except UnicodeDecodeError as error:
        raise UserDataError(f"topic at byte {start} is not UTF-8: {error.reason}") from None


class ClaimReader:
    """Reads the user data that the members of one group sent with `sticky`.

    Members mostly own as many partitions of the same topics as others do. Bytes laid out like those of
    members before are read as a whole, much faster than topic by topic.
    """

    __slots__ = ("_known", "_names")

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        # By size and first topic: how the last two members' bytes were laid out, or else the last claim.
        self._known: dict[tuple[int, bytes], _Layout | Claim] = {}

    @override
    def __reduce__(self) -> tuple[type["ClaimReader"], tuple[()]]:
        """Copy as a new, empty reader: layouts cannot be copied."""
        return ClaimReader, ()

    @property
    def size(self) -> int:
        """How much it has learnt: the layouts, and the names of topics."""
        return len(self._known) + len(self._names)

    def read(self, data: bytes | None, member_id: str) -> Claim:
        """Decode the user data of a member, which may be missing; data that cannot be parsed claims nothing, which is logged."""
        if not data:
            return NO_CLAIM
        key = (len(data), data[: data.find(b"\0", _FIRST_NAME)])
        known = self._known.get(key)
        if isinstance(known, _Layout) and (found := known.read(data)) is not None:
            return found
        try:
            claim = decode_claim(data, self._names)
        except UserDataError as error:
            logger.warning(
                "member %s: ignoring user data that sticky cannot read: %s", member_id, error
            )
            return NO_CLAIM
        self._known[key] = claim
        if isinstance(known, Claim) and _are_alike(known.partitions, claim.partitions):
            self._known[key] = _Layout.of(claim, len(data)) or claim
        return claim


def _are_alike(some: Partitions, others: Partitions) -> bool:
    return list(some) == list(others) and [*map(len, some.values())] == [*map(len, others.values())]


class _Layout:
    """Where the numbers stand in user data of version 1, and what stands between them."""

    __slots__ = ("_between", "_numbers", "_pick", "_struct", "_topics")

    def __init__(self, between: Sequence[bytes], claim: Claim) -> None:
        parts, slices, at = [">4s"], [], 1
        for name, numbers in zip(between[1:], claim.partitions.values(), strict=True):
            parts.append(f"{len(name)}s{len(numbers)}i")
            slices.append(slice(at + 1, at + 1 + len(numbers)))
            at += 1 + len(numbers)
        self._struct = Struct("".join(parts) + "i")
        self._between = tuple(between)
        self._pick = itemgetter(0, *(each.start - 1 for each in slices))
        self._topics = list(claim.partitions)
        self._numbers = slices

    @classmethod
    def of(cls, claim: Claim, size: int) -> "_Layout | None":
        """Make the layout of what was read; None where its bytes are more, or fewer, than it would be."""
        if not claim.partitions:
            return None
        between = [_INT32.pack(len(claim.partitions))]
        for topic, numbers in claim.partitions.items():
            name = topic.encode()
            between.append(_INT16.pack(len(name)) + name + _INT32.pack(len(numbers)))
        numbers_and_generation = sum(map(len, claim.partitions.values())) + 1
        if sum(map(len, between)) + 4 * numbers_and_generation != size:
            return None
        return cls(between, claim)

    def read(self, data: bytes) -> Claim | None:
        """Read bytes, as many as those it was made of; None where they are laid out otherwise."""
        values = self._struct.unpack(data)
        if self._pick(values) != self._between:
            return None
        numbers = map(values.__getitem__, self._numbers)
        return Claim(dict(zip(self._topics, numbers, strict=True)), values[-1])


def encode_generation(generation_id: int) -> bytes:
    return _INT32.pack(generation_id)


def read_generation(data: bytes | None, member_id: str) -> int:
    """Decode the user data of `cooperative-sticky`, -1 without any; data that is too short gives -1, which is logged."""
    if not data:  # librdkafka writes no bytes where Java writes null
        return _NO_GENERATION
    if len(data) < _INT32.size:
        logger.warning(
            "member %s: ignoring user data of %d bytes, where cooperative-sticky writes %d",
            member_id,
            len(data),
            _INT32.size,
        )
        return _NO_GENERATION
    generation_id: int = _INT32.unpack_from(data, 0)[0]
    return generation_id
