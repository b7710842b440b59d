"""The user data of `sticky` and `cooperative-sticky` on the wire, as Kafka's classes write them.

`sticky` (KIP-54, KIP-341) sends what the member had, and since when: an array of topics, each with its
partitions, then the generation, which version 0 lacks. `cooperative-sticky` sends the generation alone.
Numbers are big-endian and of 4 bytes, lengths of strings of 2.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import Struct

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


def decode_claim(data: bytes) -> Claim:
    """Read the user data of `sticky`, version 1 or 0; what follows is left alone.

    Raises:
        UserDataError: it is neither. No more is read, or set aside, than there are bytes.
    """
    (count,), at = _read(_INT32, data, 0, "number of topics")
    if not 0 <= count <= len(data) - at:
        raise UserDataError(f"{count} topics at byte 0 of {len(data)}")
    partitions: dict[str, Sequence[int]] = {}
    for _ in range(count):
        (size,), start = _read(_INT16, data, at, "length of a topic")
        at = start + size
        if size < 0 or at > len(data):
            raise UserDataError(f"topic of {size} bytes at byte {start} of {len(data)}")
        try:
            topic = str(data[start:at], "utf-8")
        except UnicodeDecodeError as error:
            raise UserDataError(f"topic at byte {start} is not UTF-8: {error.reason}") from None
        (length,), at = _read(_INT32, data, at, "number of partitions")
        if not 0 <= length <= (len(data) - at) // 4:
            raise UserDataError(f"{length} partitions at byte {at - 4} of {len(data)}")
        numbers = Struct(f">{length}i").unpack_from(data, at)
        at += 4 * length
        before = partitions.get(topic)
        partitions[topic] = numbers if before is None else (*before, *numbers)
    if len(data) - at < _INT32.size:
        # Version 0; Java tells them apart by nothing else either.
        return Claim(partitions)
    return Claim(partitions, _INT32.unpack_from(data, at)[0])


def read_claim(data: bytes | None, member_id: str) -> Claim:
    """Read what a member sent with `sticky`; nothing claimed where that does not parse, which is logged."""
    if not data:
        return NO_CLAIM
    try:
        return decode_claim(data)
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


def _read(form: Struct, data: bytes, at: int, what: str) -> tuple[tuple[int, ...], int]:
    if len(data) - at < form.size:
        raise UserDataError(f"ends at byte {len(data)} in the {what}")
    return form.unpack_from(data, at), at + form.size
