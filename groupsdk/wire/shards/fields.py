"""Write and read the fields that the protocol of shards is made of; reading is bounded."""

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from groupsdk.errors import DecodeError, EncodeError
from groupsdk.limits import MAX_INT64


GREATEST_STRING: Final = 4_096
"""The longest string, in bytes of UTF-8."""
GREATEST_LIST: Final = 1_000
"""The most strings of one list."""

_MAX_UVARINT_BYTES = 9
_MORE = 128
_LOW = 127


class Writer:
    """Collects the bytes of one message."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    def uvarint(self, value: int) -> None:
        """Write an unsigned varint: seven bits a byte, the lowest first, the eighth set in all bytes but the last.

        Raises EncodeError if the value is negative, or over 2**63 - 1.
        """
        if not 0 <= value <= MAX_INT64:
            raise EncodeError(f"a number must be 0 to 2**63 - 1, not {value}")
        while value > _LOW:
            self._data.append(value & _LOW | _MORE)
            value >>= 7
        self._data.append(value)

    def fixed(self, layout: struct.Struct, *values: float) -> None:
        """Write numbers in a fixed layout."""
        self._data += layout.pack(*values)

    def raw(self, data: bytes) -> None:
        """Write bytes whose number the reader knows."""
        self._data += data

    def string(self, value: str, what: str) -> None:
        """Write a string: the number of its bytes, and UTF-8.

        Raises EncodeError if it is longer than 4,096 bytes, or cannot be encoded.
        """
        try:
            data = value.encode()
        except UnicodeEncodeError:
            raise EncodeError(f"{what} cannot be encoded as UTF-8: {value[:60]!r}") from None
        if len(data) > GREATEST_STRING:
            raise EncodeError(
                f"{what} must have at most {GREATEST_STRING} bytes, not {len(data)}: {value[:60]!r}"
            )
        self.uvarint(len(data))
        self._data += data

    def nullable_string(self, value: str | None, what: str) -> None:
        """Write whether there is a string (0 or 1), and the string."""
        self.uvarint(value is not None)
        if value is not None:
            self.string(value, what)

    def strings(self, values: Sequence[str], what: str) -> None:
        """Write the number of strings, and each.

        Raises EncodeError if there are more than 1,000.
        """
        if len(values) > GREATEST_LIST:
            raise EncodeError(f"{what} must be at most {GREATEST_LIST}, not {len(values)}")
        self.uvarint(len(values))
        for value in values:
            self.string(value, what)

    def bits(self, values: Iterable[int], width: int) -> None:
        """Write numbers in `width` bits each, the highest bit first; the last byte is filled up with zeros."""
        self.digits("".join([format(value, f"0{width}b") for value in values]))

    def digits(self, digits: str) -> None:
        """Write binary digits, eight to a byte; the last byte is filled up with zeros."""
        digits += "0" * (-len(digits) % 8)
        self._data += int(digits or "0", 2).to_bytes(len(digits) // 8)

    def finish(self) -> bytes:
        """Return all that was written."""
        return bytes(self._data)


class Reader:
    """Reads the bytes of one message; never past their end.

    All methods raise a `DecodeError` that names the message, the place and what is wrong with it.
    """

    __slots__ = ("_data", "_position", "_title")

    def __init__(self, data: bytes, title: str) -> None:
        self._data = data
        self._title = title
        self._position = 0

    @property
    def left(self) -> int:
        """The number of bytes that have not been read."""
        return len(self._data) - self._position

    def wrong(self, problem: str) -> DecodeError:
        """Return the error for a problem at the current position."""
        return DecodeError(f"{self._title}: {problem}, at byte {self._position}")

    def raw(self, size: int) -> bytes:
        """Read some bytes."""
        if size > self.left:
            raise self.wrong(f"{size} bytes were expected, {self.left} are left")
        start = self._position
        self._position += size
        return self._data[start : self._position]

    def uvarint(self) -> int:
        """Read an unsigned varint of at most 63 bits."""
        data, position = self._data, self._position
        value = shift = 0
        for byte in data[position : position + _MAX_UVARINT_BYTES]:
            position += 1
            value |= (byte & _LOW) << shift
            if byte < _MORE:
                self._position = position
                return value
            shift += 7
        if len(data) - self._position < _MAX_UVARINT_BYTES:
            raise self.wrong("the bytes end within a number")
        raise self.wrong("a number has more than 63 bits")

    def count(self, what: str, most: int) -> int:
        """Read a number of things, of which there may be so many."""
        value = self.uvarint()
        if value > most:
            raise self.wrong(f"{value} {what}, at most {most} are allowed")
        return value

    def fixed(self, layout: struct.Struct) -> tuple[float, ...]:
        """Read numbers in a fixed layout."""
        return layout.unpack(self.raw(layout.size))

    def string(self) -> str:
        data = self.raw(self.count("bytes of a string", GREATEST_STRING))
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise self.wrong(f"a string is not UTF-8 ({error.reason})") from None

    def nullable_string(self) -> str | None:
        """Read a string that may be missing."""
        return self.string() if self.count("strings of one", 1) else None

    def strings(self) -> list[str]:
        return [self.string() for _ in range(self.count("strings", GREATEST_LIST))]

    def bits(self, count: int, width: int) -> list[int]:
        """Read `count` numbers of `width` bits each."""
        if not width:
            return [0] * count
        digits = self.digits(count * width)
        return [int(digits[at : at + width], 2) for at in range(0, count * width, width)]

    def digits(self, count: int) -> str:
        """Read so many binary digits."""
        size = (count + 7) // 8
        return format(int.from_bytes(self.raw(size)), f"0{size * 8}b")[:count]
