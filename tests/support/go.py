"""Build programs in Go: those that run clients of franz-go, and tools."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.support.missing import GO, lacking


def built_go(source: Path, folder: Path) -> Path:
    """Build the program in the folder `source`, and return its path in `folder`.

    Skips the test where there is no Go; fails it where GROUPSDK_REQUIRE_GO=1 says that there must be.
    """
    program = folder / source.name
    _go("build", "-o", str(program), ".", cwd=source)
    return program


def installed_go(package: str, version: str, folder: Path) -> Path:
    """Install a program from the Go module proxy into a folder, and return its path; skips and fails as `built_go` does."""
    _go("install", f"{package}@{version}", GOBIN=str(folder))
    return folder / package.rpartition("/")[2]


def _go(*arguments: str, cwd: Path | None = None, **environment: str) -> None:
    go = shutil.which("go")
    if go is None:
        lacking("no Go here (go on PATH)", GO)
    done = subprocess.run(
        [go, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
