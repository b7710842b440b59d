"""Sets of small numbers as Python integers: bit n is set where n is in the set.

One AND relates a node of a graph to all its neighbours, in one instruction per thirty of them; plain Python
has nothing faster for searching graphs that are dense.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import compress, islice


_FEW = 3
_SOME = 8
_BITS_FOR_EACH = 256
"""With so many bits for each number or more, taking the numbers away one by one is faster than converting to text."""

_BITS_IF_PACKED = 32
"""With so many bits for each number or more, setting bits in bytes is faster than converting from text."""

_DENSE = 16
_SPARSE = 20
_DIGITS = bytes.maketrans(b"01", b"\0\1")


@cache
def _numbers(length: int) -> Sequence[int]:
    """Return the numbers with at most so many bits; rebuilding them costs more than looking them up."""
    return tuple(range(1 << length))


def positions(bits: int) -> list[int]:
    count = bits.bit_count()
    if count <= _FEW or count * _BITS_FOR_EACH <= bits.bit_length():
        return _split(bits)
    found: list[int] = []
    # A string is searched faster than lowest bits are split off a long integer. The last character of
    # bin() is number 0; reversed, and cut before the "b0" that the prefix has become.
    text = bin(bits)[:1:-1]
    if count * _DENSE > len(text):
        return list(compress(_numbers(len(text).bit_length()), text.encode().translate(_DIGITS)))
    at = text.find("1")
    while at >= 0:
        found.append(at)
        at = text.find("1", at + 1)
    return found


def _split(bits: int) -> list[int]:
    """List the numbers in a set by taking the lowest away, again and again."""
    found: list[int] = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


def first(bits: int, count: int) -> int:
    """Return the `count` smallest numbers of a set."""
    if count == bits.bit_count():
        return bits
    if count <= _SOME or count * _BITS_FOR_EACH <= bits.bit_length():
        left = bits
        for _ in range(count):
            left &= left - 1
        return bits ^ left
    text = bin(bits)[:1:-1].encode()
    numbers = _numbers(len(text).bit_length())
    (end,) = islice(compress(numbers, text.translate(_DIGITS)), count, count + 1)
    return bits & (1 << end) - 1


def lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def bitset(numbers: Iterable[int]) -> int:
    """Return the set of some numbers of 0 or more, in any order, repeated or not."""
    unique = numbers if isinstance(numbers, dict | set) else set(numbers)
    if len(unique) <= _SOME:
        bits = 0
        for number in unique:
            bits |= 1 << number
        return bits
    highest = max(unique)
    if len(unique) * _BITS_IF_PACKED <= highest:
        packed = bytearray((highest >> 3) + 1)
        for number in unique:
            packed[number >> 3] |= 1 << (number & 7)
        return int.from_bytes(packed, "little")
    text = bytearray(b"0") * (highest + 1)
    for number in unique:
        text[number] = 49
    text.reverse()
    return int(text, 2)


def transpose(sets: Sequence[int], width: int) -> list[int]:
    """Transpose a relation: set n of the result contains every i with n in `sets[i]`."""
    total = sum(map(int.bit_count, sets))
    if total * _SPARSE < len(sets) * width:
        members: list[list[int]] = [[] for _ in range(width)]
        for index, bits in enumerate(sets):
            for number in positions(bits):
                members[number].append(index)
        return list(map(bitset, members))
    if not sets:
        return [0] * width
    # Rows of text, the last one first, so that each column reads as a binary number.
    matrix = "".join([format(each, f"0{width}b") for each in reversed(sets)]).encode()
    return [int(matrix[width - 1 - number :: width], 2) for number in range(width)]
