"""Write the source of a function, and find the field that one of its lines is for."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from groupsdk.wire.schema import Message


_PAUSE_AFTER: Final = 1024
"""After how many elements of arrays a codec in steps pauses: a few milliseconds' work."""


class SourceWriter:
    """Collects the lines of a generated function, each with the field that it encodes or decodes."""

    def __init__(self, message: type[Message], version: int) -> None:
        self.message = message
        self.version = version
        self.flexible = message.api.is_flexible(version)
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._places: list[str] = []
        self._path: list[str] = []
        self._depth = 0
        self._count = 0

    def line(self, text: str) -> None:
        """Append a line at the current indentation, for the current field."""
        self._lines.append("    " * self._depth + text)
        self._places.append(".".join(self._path))

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Append `head`, and indent the lines appended within the `with` block."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    @contextmanager
    def field(self, name: str) -> Iterator[None]:
        """Make `name` the current field within the `with` block, for the place of errors."""
        self._path.append(name)
        yield
        self._path.pop()

    def variable(self, stem: str) -> str:
        """Return a new variable name beginning with `stem`."""
        self._count += 1
        return f"{stem}{self._count}"

    def constant(self, stem: str, value: Any) -> str:
        """Return an expression for a value: a literal if it is short, else a new global name beginning with `stem`."""
        if value is None or value in (b"", (), "") or isinstance(value, bool | int):
            return repr(value)
        name = self.variable(stem)
        self.names[name] = value
        return name

    def function(self, name: str) -> Any:
        """Compile the lines and return the function `name` that they define."""
        file = f"<{name} {self.message.__name__} v{self.version}>"
        namespace = dict(self.names)
        exec(compile("\n".join(self._lines), file, "exec"), namespace)
        return namespace[name]

    def start_counting(self) -> None:
        """Make the function a generator that counts elements for `pause`."""
        self.line("turn = 0")
        self.line("if turn:")
        self.line("    yield")  # a generator also where there is nothing to repeat

    def pause(self, *before: str) -> None:
        """Count an element, and yield after every `_PAUSE_AFTER` of them, after these lines."""
        self.line("turn += 1")
        with self.block(f"if turn == {_PAUSE_AFTER}:"):
            self.line("turn = 0")
            for line in before:
                self.line(line)
            self.line("yield")

    @property
    def title(self) -> str:
        """The message and version, for errors."""
        return f"{self.message.__name__} v{self.version}"

    def place_of(self, error: BaseException) -> str:
        """Return the field that the function was at when it raised `error`; "" outside any field.

        Found by the line that raised, so the function itself need not keep track.
        """
        trace = error.__traceback__
        return "" if trace is None else self._places[trace.tb_lineno - 1]
