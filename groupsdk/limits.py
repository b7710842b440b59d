"""State the limits that Kafka's protocol and the process set, for all who check against them."""

from collections.abc import Callable
from typing import Any, Final


MAX_INT32: Final = 2**31 - 1
"""The largest length, count or time in milliseconds: Kafka keeps them in signed 32-bit integers."""

MAX_INT64: Final = 2**63 - 1
"""The largest offset, and the largest fencing token of a task."""

MAX_STRING_BYTES: Final = 2**15 - 1
"""The longest string that Kafka's generated classes accept, in UTF-8 bytes, in every encoding."""

MAX_UNKNOWN_TAGS: Final = 10_000
"""How many tagged fields of one section may be unknown; Kafka sets no such limit, and adds a few in a release."""

MAX_REQUEST_ELEMENTS: Final = 50_000
"""How many elements all arrays of one request to a broker may have together; Kafka sets no such limit.

An element of two bytes becomes objects of up to 1.7 KB, in the request and in its answer.
"""


def max_open_files() -> int:
    """Return how many file descriptors this process may have (RLIMIT_NOFILE, `ulimit -n`)."""
    try:
        from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit  # not on Windows
    except ImportError:
        return MAX_INT32
    soft, _ = getrlimit(RLIMIT_NOFILE)
    return MAX_INT32 if soft == RLIM_INFINITY else soft


def green_library(*functions: Callable[..., Any]) -> str | None:
    """Return gevent or eventlet if one of these functions of the standard library is its own by now; None if not.

    An event loop does not run on greenlets.
    """
    homes = (each.__module__.partition(".")[0] for each in functions)
    return next((home for home in homes if home in {"gevent", "eventlet"}), None)
