#!/usr/bin/env python
"""Replace the generated parts of a page, which stand between two comments."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path


DOCS = Path(__file__).resolve().parent

Pages = dict[Path, str]
"""What each page has to hold, all of it."""


def filled(page: str, regions: dict[str, str]) -> Pages:
    """Return a page of docs/ with each region between ``<!-- name:begin -->`` and its end rewritten.

    Raises:
        ValueError: the page has no such region.
    """
    path = DOCS / page
    text = path.read_text(encoding="utf-8")
    for name, content in regions.items():
        begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->\n"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise ValueError(f"{path} has no lines {begin.strip()} and {end.strip()}")
        text = f"{before}{begin}{content.strip()}\n{end}{after}"
    return {path: text}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [list(head), ["---"] * len(head), *map(list, rows)]
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def write(pages: Callable[[], Pages]) -> None:
    """Write the pages that are not up to date."""
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
