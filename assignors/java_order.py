"""Order strings as a Java HashMap holds them."""

from collections.abc import Iterable

from groupsdk.utf16 import utf16_key


_FIRST_BUCKETS = 16
_WORD = 0xFFFFFFFF


def java_hash(text: str) -> int:
    """Return `String.hashCode` as an unsigned 32-bit number."""
    value = 0
    if text.isascii():
        for unit in text.encode():
            value = (31 * value + unit) & _WORD
        return value
    units = utf16_key(text)
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _WORD
    return value


def java_map_order(keys: Iterable[str]) -> list[str]:
    """List different strings in the order in which a Java HashMap iterates them.

    They are taken to be put in one by one, in the order given, into a map of the default size; the order
    given matters for strings that share a bucket only. Buckets that Java turns into trees (eight or more
    strings in one of 64 and more buckets, which takes a deliberate choice of names) are taken for lists.
    """
    listed = list(keys)
    if len(listed) < 2:
        return listed
    size = _FIRST_BUCKETS
    # doubled as soon as it holds more than three quarters of its buckets; a bucket that is split keeps
    # its order, so that only the final number matters
    while len(listed) * 4 > size * 3:
        size *= 2
    buckets: dict[int, list[str]] = {}
    for key in listed:
        value = java_hash(key)
        buckets.setdefault((value ^ value >> 16) & size - 1, []).append(key)
    return [key for index in sorted(buckets) for key in buckets[index]]
