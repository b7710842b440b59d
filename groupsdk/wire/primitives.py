"""Read and write the building blocks of Kafka's protocol that need more than one `struct` call."""

import struct
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from uuid import UUID

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.limits import MAX_INT32, MAX_STRING_BYTES, MAX_UNKNOWN_TAGS


_MAX_UVARINT_BYTES = 5


class FieldError(Exception):
    """What is wrong with one field; the codec turns it into a DecodeError or EncodeError with its place.

    Internal to `groupsdk.wire`: it never leaves the package.
    """


@dataclass(frozen=True, slots=True)
class TaggedField:
    """A tagged field that the declarations here do not have (KIP-482): its number `tag` and its encoded `data`."""

    tag: int
    data: bytes


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint (KIP-482), 1 to 5 bytes for what Kafka can read.

    Raises FieldError if the value is negative or does not fit 32 bits.
    """
    if 0 <= value < 128:
        return value.to_bytes()
    if not 0 <= value <= 0xFFFFFFFF:
        raise FieldError(f"is {value}, which does not fit an unsigned varint of 32 bits")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(data: bytes, position: int) -> tuple[int, int]:
    """Decode the unsigned varint at `position`; return it with the position of its LAST byte.

    Raises:
        FieldError: it is longer than five bytes or over `MAX_INT32`.
        IndexError: the data ends within it.
    """
    value = shift = 0
    for at in range(position, position + _MAX_UVARINT_BYTES):
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            if value > MAX_INT32:
                raise FieldError(f"has the length or count {value}, over the limit of {MAX_INT32}")
            return value, at
        shift += 7
    raise FieldError("has a length or count of more than five bytes")


def compact_string(value: bytes) -> bytes:
    """Encode the UTF-8 bytes of `value` as a compact string.

    Raises FieldError if it is longer than Kafka accepts.
    """
    return compact_string_length(len(value)) + value


def compact_string_length(length: int) -> bytes:
    """Encode the length prefix of a compact string.

    Raises FieldError if it is longer than Kafka accepts.
    """
    if length > MAX_STRING_BYTES:
        raise FieldError(f"has {length} bytes in UTF-8, over the limit of {MAX_STRING_BYTES}")
    return uvarint(length + 1)


def read_compact_string(data: bytes, position: int, errors: str = "strict") -> tuple[str, int]:
    """Decode the compact string at `position`; return it with the position behind it.

    The caller checks at the end of the message that nothing ran over.

    Args:
        errors: as for `bytes.decode`.

    Raises:
        FieldError: it is null or too long.
    """
    length, position = read_uvarint(data, position)
    if length == 0:
        raise FieldError("is null, which it may not be in this version")
    if length > MAX_STRING_BYTES + 1:
        raise FieldError(
            f"has {length - 1} bytes, over the limit of {MAX_STRING_BYTES} for a string"
        )
    return data[position + 1 : position + length].decode(errors=errors), position + length


def read_compact_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    """Decode the compact bytes at `position` of `data`. Return them and the position after them.

    The caller checks at the end of the message that nothing ran over. Raises FieldError if they are null.
    """
    length, position = read_uvarint(data, position)
    if length == 0:
        raise FieldError("is null, which it may not be in this version")
    return data[position + 1 : position + length], position + length


def write_tags(known: Sequence[tuple[int, bytes]], unknown: Sequence[TaggedField]) -> bytes:
    """Encode a section of tagged fields: known ones and those kept from a newer peer, by ascending tag.

    Raises FieldError if a tag is given twice, or an unknown one is negative.
    """
    if not unknown and len(known) == 1:
        ((tag, content),) = known
        return b"\1" + uvarint(tag) + uvarint(len(content)) + content
    fields = [*known, *((field.tag, field.data) for field in unknown)]
    fields.sort(key=lambda field: field[0])
    out = [uvarint(len(fields))]
    previous = -1
    for tag, content in fields:
        if tag <= previous:
            raise FieldError(f"has the tag {tag} twice, or it is negative")
        previous = tag
        out += (uvarint(tag), uvarint(len(content)), content)
    return b"".join(out)


def read_tag(data: bytes, position: int, end: int) -> tuple[int, int, int]:
    """Decode the head of the tagged field at `position` of `data`. Return the tag, and where its content starts and stops.

    Raises:
        FieldError: its size extends past `end`.
        IndexError: the data ends within the head.
    """
    tag, position = read_uvarint(data, position)
    size, position = read_uvarint(data, position + 1)
    start = position + 1
    if size > end - start:
        raise FieldError(f"has a tagged field {tag} of {size} bytes where {end - start} are left")
    return tag, start, start + size


def read_unknown_tags(data: bytes, position: int, end: int) -> tuple[tuple[TaggedField, ...], int]:
    """Decode a whole section of tagged fields of which none is known; return it and the position behind it.

    Raises:
        FieldError: a size runs over `end`, or there are more than `MAX_UNKNOWN_TAGS`.
        IndexError: the data ends within the section.
    """
    count, position = read_uvarint(data, position)
    position += 1
    if count > MAX_UNKNOWN_TAGS:
        raise FieldError(f"has {count} tagged fields, over the limit of {MAX_UNKNOWN_TAGS}")
    fields = []
    for _ in range(count):
        tag, start, position = read_tag(data, position, end)
        fields.append(TaggedField(tag, data[start:position]))
    return tuple(fields), position


def kafka_uuid(value: UUID) -> str:
    """Return a UUID as Kafka writes it: 22 characters of URL-safe base64."""
    return urlsafe_b64encode(value.bytes).decode().rstrip("=")


DECODE_FAILURES = (FieldError, IndexError, struct.error, UnicodeError)
"""What a compiled decoder may raise on hostile bytes; all of it becomes a DecodeError."""

ENCODE_FAILURES = (FieldError, struct.error, UnicodeError, TypeError, AttributeError, OverflowError)
"""What a compiled encoder may raise on wrong values; all of it becomes an EncodeError."""
