"""All ways in which user code misbehaves, for tests of whoever calls it."""

import threading
from asyncio import CancelledError
from collections.abc import Callable
from typing import Any, Final

import pytest


HANG, SPIN, RAISE, WRONG = "hangs", "spins", "raises", "wrong-result"
RAISED: Final[dict[str, Callable[[], BaseException]]] = {
    RAISE: lambda: ValueError("odd"),
    "SystemExit": lambda: SystemExit("odd"),
    "CancelledError": lambda: CancelledError("odd"),
    "KeyboardInterrupt": lambda: KeyboardInterrupt("odd"),
    "Failed": lambda: pytest.fail.Exception("odd"),
}
"""The exceptions; most of them are no `Exception`."""
DEEDS: Final = (*RAISED, WRONG, HANG, SPIN)


class Misdeeds:
    """What user code does, until `over` is set."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.begun = {deed: threading.Event() for deed in DEEDS}

    def do(self, deed: str | None) -> Any:
        """Misbehave; None: behave."""
        if deed is None:
            return None
        self.begun[deed].set()
        if deed in RAISED:
            raise RAISED[deed]()  # noqa: RSE102  # a function that makes it
        if deed == WRONG:
            return (each for each in (1,))  # nothing of a generator has run
        if deed == HANG:
            self.over.wait(120)
        while deed == SPIN and not self.over.is_set():
            pass
        return None

    def await_begun(self, deed: str) -> None:
        """Wait until the user's code is at it."""
        assert self.begun[deed].wait(60), deed


def error_of(deed: str, wrong: type[BaseException] = TypeError) -> type[BaseException]:
    """Return what a deed that ends raises in its caller: `wrong` for a wrong result."""
    return type(RAISED[deed]()) if deed in RAISED else wrong


def name_of(deed: str) -> str:
    """Return the name of the exception that a deed raises in its caller."""
    return error_of(deed).__name__
