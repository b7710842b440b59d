"""Build programs in Go, which run clients of franz-go."""

import shutil
import subprocess
from pathlib import Path

from tests.support.missing import GO, lacking


def built_go(source: Path, folder: Path) -> Path:
    """Build the program in the folder `source`, and return its path in `folder`.

    Skips the test where there is no Go; fails it where GROUPSDK_REQUIRE_GO=1 says that there must be.
    """
    go = shutil.which("go")
    if go is None:
        lacking("no Go here (go on PATH), which builds the clients on franz-go", GO)
    program = folder / source.name
    done = subprocess.run(
        [go, "build", "-o", str(program), "."],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return program
