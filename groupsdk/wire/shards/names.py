"""Write and read sets of names in few bytes: numbered names as ranges of numbers, others by what they share.

Names that end in digits form families, such as all of "shard-1", "shard-2" and "shard-30", or all of "day-001" and
"day-017" (the same prefix, and as many digits with leading zeros). Of a family the prefix is written once, and of
each number only its distance to the one before.
"""

from collections.abc import Collection, Iterator
from typing import Final

from groupsdk.errors import EncodeError
from groupsdk.wire.shards.fields import Reader, Writer


GREATEST_NAME: Final = 249
"""The longest name of a shard, in bytes of UTF-8; as Kafka's topics."""
GREATEST_COUNT: Final = 500_000
"""The most names of one message."""
GREATEST_SIZE: Final = 32_000_000
"""The most characters that all names of one message may have together, when written out."""
GREATEST_DIGITS: Final = 18
"""The most digits that count as a number: it fits 63 bits. What is before belongs to the prefix."""

_DIGITS = "0123456789"
_FEW = 2
_GREATEST_WIDTH = 61
"""Of the lower bits of numbers, plus one."""

Family = tuple[str, int]
"""The prefix of numbered names, and how many digits they have with leading zeros; 0: no leading zeros."""


def split_name(name: str) -> tuple[str, int, int] | None:
    """Return the prefix, the digits with leading zeros (0: none) and the number of a name; None without a number."""
    prefix = name.rstrip(_DIGITS)
    digits = name[len(prefix) :]
    if not digits:
        return None
    if len(digits) > GREATEST_DIGITS:
        digits = digits[-GREATEST_DIGITS:]
        prefix = name[:-GREATEST_DIGITS]
    width = len(digits) if digits[0] == "0" and len(digits) > 1 else 0
    return prefix, width, int(digits)


def natural_key(name: str) -> tuple[str, int, int, str]:
    """Return by what to sort names so that "shard-9" is before "shard-10"."""
    split = split_name(name)
    return (name, -1, -1, name) if split is None else (split[0], split[2], split[1], name)


def write_names(writer: Writer, names: Collection[str]) -> list[str]:
    """Write a set of names.

    Returns:
        The names in the order in which they are read.

    Raises:
        EncodeError: there are more than 500,000, or a name cannot be encoded.
    """
    if len(names) > GREATEST_COUNT:
        raise EncodeError(f"at most {GREATEST_COUNT} names fit one message, not {len(names)}")
    families, others = _families(names)
    order: list[str] = []
    writer.uvarint(len(families))
    before = b""
    for family in sorted(families):
        prefix, width = family
        before = _write_shared(writer, before, prefix)
        writer.uvarint(width)
        numbers = sorted(families[family])
        _write_numbers(writer, numbers)
        order += [f"{prefix}{number:0{width}d}" for number in numbers]
    writer.uvarint(len(others))
    before = b""
    for name in sorted(others):
        before = _write_shared(writer, before, name)
    return order + sorted(others)


def read_names(reader: Reader) -> list[str]:
    """Read a set of names. Raises DecodeError if they are not a set of names, or too many."""
    room = [GREATEST_COUNT, GREATEST_SIZE]
    names: list[str] = []
    before = b""
    for _ in range(reader.count("families of names", GREATEST_COUNT)):
        before, prefix = _read_shared(reader, before)
        width = reader.count("digits", GREATEST_DIGITS)
        numbers = _read_numbers(reader, room[0])
        _take(reader, room, len(numbers), len(numbers) * (len(prefix) + GREATEST_DIGITS))
        names += [f"{prefix}{number:0{width}d}" for number in numbers]
        if len(before) + GREATEST_DIGITS > GREATEST_NAME:
            _check_longest(reader, before, width, numbers)
    before = b""
    for _ in range(reader.count("names", room[0])):
        before, name = _read_shared(reader, before)
        if not name:
            raise reader.wrong("a name is empty")
        _take(reader, room, 1, len(name))
        names.append(name)
    if len(set(names)) != len(names):
        raise reader.wrong("a name is there twice")
    return names


def _families(names: Collection[str]) -> tuple[dict[Family, list[int]], list[str]]:
    """Group names; what would be alone in its family is cheaper as it is."""
    families: dict[Family, list[int]] = {}
    others: list[str] = []
    for name in names:
        split = split_name(name)
        if split is None:
            others.append(name)
        else:
            prefix, width, number = split
            families.setdefault((prefix, width), []).append(number)
    for family in [family for family, numbers in families.items() if len(numbers) < _FEW]:
        prefix, width = family
        others += [f"{prefix}{number:0{width}d}" for number in families.pop(family)]
    return families, others


def _write_shared(writer: Writer, before: bytes, value: str) -> bytes:
    """Write how many bytes a string shares with the one before, and the rest of it."""
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise EncodeError(f"a name cannot be encoded as UTF-8: {value[:60]!r}") from None
    shared = 0
    for one, other in zip(before, data, strict=False):
        if one != other:
            break
        shared += 1
    writer.uvarint(shared)
    writer.uvarint(len(data) - shared)
    writer.raw(data[shared:])
    return data


def _read_shared(reader: Reader, before: bytes) -> tuple[bytes, str]:
    shared = reader.count("shared bytes", len(before))
    data = before[:shared] + reader.raw(reader.count("bytes of a name", GREATEST_NAME - shared))
    try:
        return data, data.decode()
    except UnicodeDecodeError as error:
        raise reader.wrong(f"a name is not UTF-8 ({error.reason})") from None


def _write_numbers(writer: Writer, numbers: list[int]) -> None:
    """Write ascending numbers, as runs of consecutive ones or, where that takes less, in halves."""
    writer.uvarint(len(numbers))
    span = numbers[-1] - numbers[0] + 1
    width = max(0, (span // len(numbers)).bit_length() - 1)
    runs, halves = Writer(), Writer()
    _write_runs(runs, numbers)
    _write_halves(halves, numbers, width)
    shorter = min(runs.finish(), halves.finish(), key=len)
    writer.uvarint(0 if shorter == runs.finish() else width + 1)
    writer.raw(shorter)


def _write_halves(writer: Writer, numbers: list[int], width: int) -> None:
    """Write the lower `width` bits of each number as they are, and how much the upper ones grow (Elias and Fano)."""
    first = numbers[0]
    writer.uvarint(first)
    writer.uvarint((numbers[-1] - first) >> width)
    if width:
        low = (1 << width) - 1
        writer.bits([number - first & low for number in numbers], width)
    before, grown = 0, []
    for number in numbers:
        upper = (number - first) >> width
        grown.append("0" * (upper - before) + "1")
        before = upper
    writer.digits("".join(grown))


def _read_halves(reader: Reader, count: int, width: int) -> list[int]:
    first = reader.uvarint()
    most = reader.count("steps of upper bits", 8 * reader.left)
    lower = reader.bits(count, width)
    steps = reader.digits(count + most).split("1")
    if len(steps) != count + 1 or steps[-1]:
        raise reader.wrong(f"upper bits of {count} numbers were expected, not of {len(steps) - 1}")
    numbers = []
    upper = 0
    for step, low in zip(steps, lower, strict=False):
        upper += len(step)
        numbers.append(first + (upper << width | low))
    # not the last one alone: their lower bits may descend
    if max(numbers, default=0) >= 10**GREATEST_DIGITS:
        raise reader.wrong(f"a number has more than {GREATEST_DIGITS} digits")
    return numbers


def _write_runs(writer: Writer, numbers: list[int]) -> None:
    following = 0
    for first, length in _runs(numbers):
        writer.uvarint((first - following) << 1 | (length > 1))
        if length > 1:
            writer.uvarint(length - 2)
        following = first + length


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    start = previous = numbers[0]
    for number in numbers[1:]:
        if number != previous + 1:
            yield start, previous - start + 1
            start = number
        previous = number
    yield start, previous - start + 1


def _read_numbers(reader: Reader, most: int) -> list[int]:
    count = reader.count("numbers", most)
    halves = reader.count("lower bits", _GREATEST_WIDTH)
    return _read_halves(reader, count, halves - 1) if halves else _read_runs(reader, count)


def _read_runs(reader: Reader, left: int) -> list[int]:
    numbers: list[int] = []
    following = 0
    while left:
        value = reader.uvarint()
        length = reader.count("numbers in a run", left - 2) + 2 if value & 1 else 1
        first = following + (value >> 1)
        following = first + length
        if following > 10**GREATEST_DIGITS:
            raise reader.wrong(f"a number has more than {GREATEST_DIGITS} digits")
        numbers += range(first, following)
        left -= length
    return numbers


def _take(reader: Reader, room: list[int], count: int, size: int) -> None:
    room[0] -= count
    room[1] -= size
    if room[0] < 0 or room[1] < 0:
        raise reader.wrong(
            f"more than {GREATEST_COUNT} names, or than {GREATEST_SIZE} bytes of them"
        )


def _check_longest(reader: Reader, prefix: bytes, width: int, numbers: list[int]) -> None:
    longest = len(prefix) + max(width, len(str(max(numbers, default=0))))
    if longest > GREATEST_NAME:
        raise reader.wrong(f"a name has {longest} bytes, at most {GREATEST_NAME} are allowed")
