"""The user data of `sticky` and `cooperative-sticky` on the wire, as Kafka's classes write them.

`sticky` (KIP-54, KIP-341) sends what the member had, and since when: an array of topics, each with its
partitions, then the generation, which version 0 lacks. `cooperative-sticky` sends the generation alone.
Numbers are big-endian and of 4 bytes, lengths of strings of 2.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import Struct, unpack_from

from groupsdk.assignment import Partitions


_LOG = logging.getLogger(__name__)
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_NO_GENERATION = -1


class UserDataError(ValueError):
    """Bytes are not what an assignor would have written; says what is wrong, and where."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a member says that it owns, and since which generation; -1 where it does not say."""

    partitions: Partitions
    generation_id: int = _NO_GENERATION


NO_CLAIM = Claim({})


def encode_claim(partitions: Mapping[str, Sequence[int]], generation_id: int) -> bytes:
    """Write the user data of `sticky`, version 1; topics in the order of the mapping."""
    parts = [_INT32.pack(len(partitions))]
    for topic, numbers in partitions.items():
        name = topic.encode()
        parts += (_INT16.pack(len(name)), name)
        parts.append(Struct(f">{len(numbers) + 1}i").pack(len(numbers), *numbers))
    parts.append(_INT32.pack(generation_id))
    return b"".join(parts)


def decode_claim(data: bytes, names: dict[bytes, str] | None = None) -> Claim:
    """Read the user data of `sticky`, version 1 or 0; what follows is left alone.

    Args:
        data: all of it.
        names: topics read before; the same topic becomes the same string, which spares time from here on.

    Raises:
        UserDataError: it is neither. No more is read, or set aside, than there are bytes.
    """
    size = len(data)
    known = {} if names is None else names
    if size < 4:
        raise UserDataError(f"ends at byte {size} in the number of topics")
    (count,) = _INT32.unpack_from(data, 0)
    at = 4
    if not 0 <= count <= size - at:
        raise UserDataError(f"{count} topics at byte 0 of {size}")
    partitions: dict[str, Sequence[int]] = {}
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


def read_claim(data: bytes | None, member_id: str, names: dict[bytes, str] | None = None) -> Claim:
    """Read what a member sent with `sticky`; nothing claimed where that does not parse, which is logged."""
    if not data:
        return NO_CLAIM
    try:
        return decode_claim(data, names)
    except UserDataError as error:
        _LOG.warning("member %s: ignoring user data that sticky cannot read: %s", member_id, error)
        return NO_CLAIM


def encode_generation(generation_id: int) -> bytes:
    """Write the user data of `cooperative-sticky`."""
    return _INT32.pack(generation_id)


def read_generation(data: bytes | None, member_id: str) -> int:
    """Read what a member sent with `cooperative-sticky`; -1 where that does not parse, which is logged."""
    if data is None:
        return _NO_GENERATION
    if len(data) < _INT32.size:
        _LOG.warning(
            "member %s: ignoring user data of %d bytes, where cooperative-sticky writes %d",
            *(member_id, len(data), _INT32.size),
        )
        return _NO_GENERATION
    generation_id: int = _INT32.unpack_from(data, 0)[0]
    return generation_id
