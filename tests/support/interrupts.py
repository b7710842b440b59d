"""Interrupt Python code where a signal's handler may run: after the start of a call, and after calls into C."""

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupts:
    """Counts the places at which code of the library can be interrupted, and raises at one of them.

    Args:
        at: the number of the place, from 0; None: nowhere.
        where: parts of the paths of the code that counts.
    """

    def __init__(self, at: int | None, where: tuple[str, ...] = ("/groupsdk/",)) -> None:
        self.at = at
        self.seen = 0
        self.raised_in = ""
        self._where = where

    def __call__(self, frame: FrameType, event: str, called: Any) -> None:
        """Be the profiler's function."""
        if event not in ("call", "c_return"):
            return
        file = frame.f_code.co_filename
        if event == "c_return" and file == threading.__file__ and called.__name__ == "__enter__":
            return  # from Python 3.14 on that leaves its own lock in `threading` locked for ever
        if not any(each in file for each in self._where):
            return
        number, self.seen = self.seen, self.seen + 1
        if number == self.at:
            self.raised_in = f"{frame.f_code.co_qualname}:{frame.f_lineno} ({event})"
            raise KeyboardInterrupt


@contextmanager
def interrupting(at: int | None, where: tuple[str, ...] = ("/groupsdk/",)) -> Iterator[Interrupts]:
    """Have what runs in the block raise `KeyboardInterrupt` at one place, which need not come.

    Nothing is collected meanwhile: the finalizers of an earlier run's objects would be interrupted in its place, and
    Python only reports what they raise.
    """
    interrupts = Interrupts(at, where)
    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(interrupts)
    try:
        yield interrupts
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()


def everywhere(
    run: Callable[[Callable[[], Any]], None], where: tuple[str, ...] = ("/groupsdk/",)
) -> Iterator[str]:
    """Run something again and again, interrupted at each place in turn; yields the place after each run.

    Args:
        run: takes a function that returns the block to interrupt, as a context manager.
        where: parts of the paths of the code that counts.
    """
    at = 0
    while True:
        used: list[Interrupts] = []

        @contextmanager
        def block(at: int = at, used: list[Interrupts] = used) -> Iterator[None]:
            with interrupting(at, where) as interrupts:
                used.append(interrupts)
                yield

        run(block)
        if not used[0].raised_in:
            return
        yield used[0].raised_in
        at += 1
