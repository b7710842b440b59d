"""State the limits that Kafka's protocol sets, for all who check against them."""

from typing import Final


MAX_INT32: Final = 2**31 - 1
"""The largest length, count or time in milliseconds: Kafka keeps them in signed 32-bit integers."""

MAX_STRING_BYTES: Final = 2**15 - 1
"""The longest string that Kafka's generated classes accept, in UTF-8 bytes, in every encoding."""
