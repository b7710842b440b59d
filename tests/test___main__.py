"""Tests `python -m groupsdk`."""

import subprocess
import sys

from groupsdk.version import __version__


def test_the_package_can_be_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "groupsdk", "--version"], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == f"groupsdk {__version__}"
