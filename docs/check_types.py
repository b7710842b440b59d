#!/usr/bin/env python
"""Check the code in README and docs, docs/ and examples/ with pyright's strict mode: `python -m docs.check_types`.

pyright is what VS Code shows beside the code, so what is printed here is what a reader would copy into red lines.
The blocks of a page are checked in their order; each knows the names of those before. What a page takes for granted
stands in a comment that nobody is shown: ``<!-- python``, lines of code, ``-->``.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from docs.regions import DOCS


ROOT: Final = DOCS.parent
BLOCKS: Final = ROOT / "build" / "docs_blocks"
_FILE: Final = re.compile(r"^Save this as `(\w+)\.py`", re.MULTILINE)
_BLOCK: Final = re.compile(r"^(?:```|<!-- )python\n(.*?)^(?:```|-->)$", re.DOTALL | re.MULTILINE)


def blocks_of(page: Path) -> Iterator[tuple[str, str]]:
    """Yield a module name and the source for each block of a page, with the lines where the page has them.

    Args:
        page: a Markdown file.
    """
    text = page.read_text(encoding="utf-8")
    stem = re.sub(r"\W", "_", page.stem)
    before: list[str] = []
    for number, found in enumerate(_BLOCK.finditer(text)):
        line = text.count("\n", 0, found.start(1))  # of the page, counted from 0
        names = "; ".join(f"from {name} import *" for name in before)
        before.append(f"{stem}_{number}")
        source = names + "\n" * line + found[1]
        yield before[-1], source
        saved = _FILE.findall(text, 0, found.start())
        if saved and text.find("```", text.rfind(saved[-1], 0, found.start())) == found.start():
            yield saved[-1], source  # other blocks import it by this name


def write_blocks() -> int:
    """Write the blocks of all pages as modules; return how many there are."""
    BLOCKS.mkdir(parents=True, exist_ok=True)
    for old in BLOCKS.glob("*.py"):
        old.unlink()
    count = 0
    for page in (ROOT / "README.md", *sorted(DOCS.glob("*.md"))):
        for name, source in blocks_of(page):
            (BLOCKS / f"{name}.py").write_text(source, encoding="utf-8")
            count += 1
    return count


def check() -> int:
    """Run pyright, print what it says with the names of the pages, and return its exit status."""
    count = write_blocks()
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    page = re.compile(rf"{re.escape(str(BLOCKS))}/(\w+?)_\d+\.py")
    said = page.sub(lambda found: f"{ROOT}/{_page(found[1])}", done.stdout + done.stderr)
    sys.stdout.write(f"{said.strip()} ({count} blocks of README and docs among the files)\n")
    return done.returncode


def _page(stem: str) -> str:
    return "README.md" if stem == "README" else f"docs/{stem.replace('_', '-')}.md"


if __name__ == "__main__":
    sys.exit(check())
