"""Make what is random in member ids."""

import os
from collections.abc import Iterator
from typing import Final


_SIZE: Final = 16
_AT_ONCE: Final = 64
_VARIANTS: Final = "89ab"


def random_uuids() -> Iterator[str]:
    """Give random UUIDs (RFC 9562, version 4) as text, for ever.

    The system is asked for the bytes of many at once: one takes a fifth of the time of `uuid.uuid4`, and a
    group that forms needs one for each member.
    """
    while True:
        drawn = os.urandom(_SIZE * _AT_ONCE)
        for start in range(0, len(drawn), _SIZE):
            text = drawn[start : start + _SIZE].hex()
            variant = _VARIANTS[drawn[start + 8] & 3]
            yield f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"
