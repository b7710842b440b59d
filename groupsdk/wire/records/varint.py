"""Read and write the numbers in records: zigzag varints, not the unsigned ones of flexible messages."""

from typing import Final

from groupsdk.errors import DecodeError, EncodeError


SMALL_COUNT: Final = 2048
"""How many numbers from 0 on are looked up instead of encoded; nearly all deltas and lengths are small."""
_LIMIT: Final = 2**63


def zigzag(value: int) -> bytes:
    """Encode a signed `value` of up to 64 bits without a table: see `varint`.

    Raises EncodeError if the value needs more bits.
    """
    if not -_LIMIT <= value < _LIMIT:
        raise EncodeError(f"a record holds the number {value}, which does not fit 64 bits")
    rest = value << 1 if value >= 0 else (~value << 1) + 1
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


SMALL: Final = tuple(zigzag(value) for value in range(SMALL_COUNT))
NULL: Final = zigzag(-1)
"""The encoded length of a null."""


def varint(value: int) -> bytes:
    """Encode a signed `value` of up to 64 bits, seven bits a byte, with the sign in the lowest bit.

    Raises EncodeError if the value needs more bits.
    """
    return SMALL[value] if 0 <= value < SMALL_COUNT else zigzag(value)


def continue_varint(data: bytes, position: int, first: int) -> tuple[int, int]:
    """Read a number that goes on behind its first byte, the sign still in its lowest bit.

    Args:
        position: behind the first byte.
        first: the first byte, which is over 127.

    Returns:
        The number with the position behind it.

    Raises:
        DecodeError: it has more than 64 bits.
        IndexError: the data ends within it.
    """
    number = first & 127
    shift = 7
    while shift < 70:
        byte = data[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            if number >> 64:
                break
            return number, position
        shift += 7
    raise DecodeError(f"a number before byte {position} has more than 64 bits")


def read_length(data: bytes, position: int) -> tuple[int | None, int]:
    """Read a length, which is None for null; gives it with the position behind it.

    The caller checks it against the bytes left.

    Raises:
        DecodeError: it is negative, and not the -1 of null.
        IndexError: the data ends within it.
    """
    number = data[position]
    position += 1
    if number > 127:
        number, position = continue_varint(data, position, number)
    if number == 1:
        return None, position
    if number & 1:
        raise negative_length(number)
    return number >> 1, position


def negative_length(number: int) -> DecodeError:
    """Build the error for a negative length; `number` has its sign in the lowest bit."""
    return DecodeError(
        f"invalid length {-(number >> 1) - 1}; the only negative one is -1, for null"
    )
