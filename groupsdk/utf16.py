"""Order text as Java does, by UTF-16 code units."""

from collections.abc import Iterable


def utf16_key(text: str) -> bytes:
    """Return a sort key that orders text by UTF-16 code units, as `String.compareTo` does.

    Python orders by code points, which differs where a character above U+FFFF meets one from U+E000 on.
    """
    return text.encode("utf-16-be", "surrogatepass")


def utf16_sorted(texts: Iterable[str]) -> list[str]:
    """Sort text by UTF-16 code units."""
    listed = list(texts)
    # the two orders are one for ASCII, which nearly all names are, and a sort without a key is faster
    return sorted(listed, key=None if all(map(str.isascii, listed)) else utf16_key)
