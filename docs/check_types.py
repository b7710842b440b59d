#!/usr/bin/env python
"""Check docs/ and examples/ with pyright, and the code of the pages with mypy and pyright: `python -m docs.check_types`.

pyright is what VS Code shows beside the code, so what is printed here is what a reader would copy into red lines. The code of
the pages is checked as its reader would: with `mypy --strict` and pyright's strict mode, on the types of the built wheel.
Each program of a page (`docs.page_blocks`) is a module, with its lines where the page has them.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from docs.page_blocks import pages, programs
from docs.reader_environment import build_wheel, make_environment, other_packages
from docs.regions import DOCS


ROOT: Final = DOCS.parent
BLOCKS: Final = ROOT / "build" / "page_blocks"
_UNTYPED: Final = ("pyarrow", "pyspark")
"""Packages without types, or with types in part."""
_MYPY: Final = "[mypy]\nstrict = True\n" + "".join(
    f"[mypy-{name}.*]\nignore_missing_imports = True\n" for name in _UNTYPED
)
_PYRIGHT: Final = """{
    "typeCheckingMode": "strict",
    "pythonVersion": "3.11",
    "reportMissingTypeStubs": false,
    "reportUnknownMemberType": false
}
"""


def modules_of(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the source of a module for each program of a page.

    A file of the page gets the page's name in front, since two pages may have a `worker.py`; so do the imports of it.
    """
    every = [each for each in programs(page) if each.last.language == "python"]
    stem = _stem(page)
    names = [Path(each.file).stem for each in every if each.file]
    for number, program in enumerate(every):
        source = program.source
        for name in names:
            source = re.sub(
                rf"^from {name} import", f"from {stem}_{name} import", source, flags=re.MULTILINE
            )
        yield f"{stem}_{Path(program.file).stem if program.file else number}", source


def write_modules(folder: Path) -> int:
    """Write the programs of all pages as modules into a folder; return how many there are."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "mypy.ini").write_text(_MYPY, encoding="utf-8")
    (folder / "pyrightconfig.json").write_text(_PYRIGHT, encoding="utf-8")
    modules = [each for page in pages() for each in modules_of(page)]
    for name, source in modules:
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    return len(modules)


def check() -> int:
    """Run the checkers, print what they say with the names of the pages, and return the exit status."""
    count = write_modules(BLOCKS)
    with tempfile.TemporaryDirectory(prefix="groupsdk-types-") as name:
        folder = Path(name)
        others = other_packages(folder / "others")
        reader = make_environment(folder / "reader", build_wheel(folder / "dist"), others)
        python = str(reader / "bin" / "python")
        mypy = ["mypy", "--config-file", "mypy.ini", "--cache-dir", "../mypy_pages"]
        failed = [
            _run(["pyright", "--pythonpath", sys.executable], ROOT),
            _run(["pyright", "--pythonpath", python], BLOCKS),
            _run([*mypy, "--python-executable", python, "."], BLOCKS),
        ]
    sys.stdout.write(f"{count} programs of README and docs checked\n")
    return int(any(failed))


def _run(command: list[str], where: Path) -> int:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=where, capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    for stem, page in {_stem(page): page for page in pages()}.items():
        module = rf"(?:{re.escape(str(BLOCKS))}/|^){stem}_\w+\.py"
        said = re.sub(module, page.relative_to(ROOT).as_posix(), said, flags=re.MULTILINE)
    sys.stdout.write(f"{said.strip()}\n")
    return done.returncode


def _stem(page: Path) -> str:
    return re.sub(r"\W", "_", page.stem)


if __name__ == "__main__":
    sys.exit(check())
