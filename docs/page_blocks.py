#!/usr/bin/env python
"""Read the blocks of a page, and the marks that say how they are run.

A mark is a comment above a block, which no reader is shown: ``<!-- run: MARK -->``.

| Mark | The block |
| --- | --- |
| `background until "REGEX"` | goes on running until the page ends; the next one starts once a line of its output matches |
| `until "REGEX"` | is interrupted (Ctrl-C) once a line of its output matches, and has to end in order |
| `SIGTERM` | the same, with this signal instead of Ctrl-C |
| `prints "REGEX"` | ends, and a line of its output matches |
| `exits N` | ends with this exit code instead of 0 |
| `goes on` | continues the Python block before: both are one program |
| `file NAME` | is saved under this name; the words "Save this as `NAME`" above it do the same |
| `whole because REASON` | is run by `make pages` alone: it needs the network, Spark or a real Kafka |
| `skip because REASON` | is not run |

Several marks stand in one comment, with `;` between them. A comment whose mark is followed by lines holds commands that
are run there without being shown, such as the start of a broker: ``<!-- run: background until "..."``, lines, ``-->``.
``<!-- run: NAME.py of PAGE.md -->`` saves a file of another page. ``<!-- python``, lines, ``-->`` stands before a
Python block: names that the page takes for granted.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from docs.regions import DOCS


README: Final = DOCS.parent / "README.md"
_PART: Final = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)\n(?P<code>.*?)^(?P=indent)```$"
    r"|^<!-- (?P<kind>run|python)(?P<mark>:[^\n]*?)?(?:\n(?P<hidden>.*?)^-->| -->)$",
    re.DOTALL | re.MULTILINE,
)
_FILE: Final = re.compile(r"Save this as `([\w.-]+)`")
_COPY: Final = re.compile(r"([\w.]+) of ([\w-]+\.md)")
_MARK: Final = re.compile(
    r"""(?:(?P<background>background)\ )?until\ "(?P<until>.*)"
    |prints\ "(?P<prints>.*)"
    |exits\ (?P<exits>\d+)
    |(?P<terminated>SIGTERM)
    |(?P<goes_on>goes\ on)
    |file\ (?P<file>[\w.-]+)
    |(?P<whole>whole)\ because\ (?P<why_whole>.+)
    |(?P<skip>skip)\ because\ (?P<why>.+)""",
    re.VERBOSE,
)


@dataclass
class Block:
    """A block of a page.

    Attributes:
        page: the file of the page.
        line: the line of the page on which the code begins, from 1.
        language: as the fence names it; "sh" for hidden commands.
        code: the lines of the block.
        prelude: hidden Python before it.
        marks: what its marks say, by the names in `_MARK`.
        file: the name under which it is saved, or "".
        hidden: whether readers are not shown it.
    """

    page: Path
    line: int
    language: str
    code: str
    prelude: str = ""
    prelude_line: int = 0
    marks: dict[str, str] = field(default_factory=dict[str, str])
    file: str = ""
    hidden: bool = False

    @property
    def place(self) -> str:
        """Page and line, for messages."""
        return f"{self.page.name}:{self.line}"


class PageError(Exception):
    """A mark of a page that cannot be understood."""


def pages() -> list[Path]:
    """List all pages, README first."""
    return [README, *sorted(DOCS.glob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """Yield the blocks of a page in their order, hidden commands and files of other pages among them.

    Raises:
        PageError: a mark is unknown, or stands before no block.
    """
    text = page.read_text(encoding="utf-8")
    marks: dict[str, str] = {}
    prelude, prelude_line = "", 0
    end = 0
    for found in _PART.finditer(text):
        if found["kind"] == "python":
            prelude, prelude_line = found["hidden"], text.count("\n", 0, found.start("hidden")) + 1
            continue
        line = text.count("\n", 0, found.start()) + 2
        if found["kind"] == "run":
            mark = (found["mark"] or "").removeprefix(":").strip()
            if copied := _COPY.fullmatch(mark):
                yield file_of(DOCS / copied[2], copied[1])
                continue
            marks |= _marks(mark, f"{page.name}:{line - 1}")
            if found["hidden"] is not None:
                yield Block(page, line, "sh", found["hidden"], marks=marks, hidden=True)
                marks = {}
            continue
        indent = len(found["indent"])
        code = "".join(each[indent:] or "\n" for each in found["code"].splitlines(keepends=True))
        saved = _FILE.findall(text[end : found.start()].rpartition("\n#")[2])
        name = marks.get("file") or (saved[-1] if saved else "")
        yield Block(page, line, found["language"], code, prelude, prelude_line, marks, name)
        marks, prelude, end = {}, "", found.end()
    if marks:
        raise PageError(f"{page.name}: the last mark stands before no block")


def file_of(page: Path, name: str) -> Block:
    """Return the block of a page that is saved under a name.

    Raises:
        PageError: there is none.
    """
    for each in blocks(page):
        if each.file == name:
            return Block(page, each.line, each.language, each.code, file=name, hidden=True)
    raise PageError(f"{page.name} has no file {name}")


def _marks(text: str, place: str) -> dict[str, str]:
    """Return what the marks of a comment say."""
    given: dict[str, str] = {}
    for each in re.findall(r'(?:"[^"]*"|[^;"])+', text):
        found = _MARK.fullmatch(each.strip())
        if found is None:
            raise PageError(
                f"{place}: unknown mark {each.strip()!r}; docs/page_blocks.py lists them"
            )
        given |= {name: value for name, value in found.groupdict().items() if value is not None}
    return given


@dataclass
class Program:
    """A block as it is run, with the Python blocks that go on from it: they are one file.

    Attributes:
        blocks: the blocks; all but the first are marked with `goes on`.
    """

    blocks: list[Block]

    @property
    def file(self) -> str:
        """The name under which the page saves it, or ""."""
        return self.blocks[0].file

    @property
    def last(self) -> Block:
        """The block at which it is run."""
        return self.blocks[-1]

    @property
    def marks(self) -> dict[str, str]:
        """The marks of all blocks."""
        return {name: value for each in self.blocks for name, value in each.marks.items()}

    @property
    def source(self) -> str:
        """The source; Python has each line where the page has it, so that errors name the page's lines."""
        if self.last.language != "python":
            return self.last.code
        lines: list[str] = []
        for each in self.blocks:
            for line, code in ((each.prelude_line, each.prelude), (each.line, each.code)):
                if code:
                    lines += [""] * (line - 1 - len(lines))
                    lines += code.splitlines()
        return "\n".join(lines) + "\n"


def programs(page: Path) -> list[Program]:
    """Return what a page has one run or save, in this order; a program stands where its last block does."""
    found: list[Program] = []
    for each in blocks(page):
        if "goes_on" in each.marks:
            before = next(one for one in reversed(found) if one.last.language == "python")
            found.remove(before)
            found.append(Program([*before.blocks, each]))
        else:
            found.append(Program([each]))
    return found
