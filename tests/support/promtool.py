"""Runs Prometheus' own checks of rules and metrics."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.missing import PROMTOOL, lacking


def promtool(*arguments: str, text: str = "") -> str:
    """Run promtool with a standard input; returns what it wrote, and fails the test if it found something.

    The test is skipped where promtool is missing, which .ci/setup promtool gets from Debian's package prometheus.
    """
    beside = Path(sys.executable).with_name("promtool")
    found = str(beside) if beside.exists() else shutil.which("promtool")
    if found is None:
        lacking("promtool is not here: run .ci/setup promtool", PROMTOOL)
    ran = subprocess.run(
        [found, *arguments], input=text, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    return ran.stdout + ran.stderr
