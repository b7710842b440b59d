"""Stop Python code that runs away, by counting the lines it executes."""

import sys
from types import FrameType, TracebackType
from typing import Any, Self


class TooManySteps(BaseException):
    """The code executed more lines than the limit.

    Not an Exception, so that code that catches those does not go on.
    """


class StepLimit:
    """Count the lines of Python that the block executes, and stop it at a limit by `TooManySteps`; a context manager.

    Lines and not seconds, so that it is the same on every machine. What C functions do within one line is
    not counted. Where a debugger or a coverage tool traces already, it is left in place and nothing is counted.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit
        self._is_counting = False

    @property
    def taken(self) -> int:
        return self._limit - self._left

    def __enter__(self) -> Self:
        if sys.gettrace() is None:
            self._is_counting = True
            sys.settrace(self._trace)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_counting:
            sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise TooManySteps
        return self._trace
