"""What a machine lacks that a test needs: the test is skipped, or fails where the environment says that it must be there."""

import os
import subprocess
import sys
from typing import Final, Never

import pytest


KAFKA: Final = "GROUPSDK_REQUIRE_KAFKA"
"""Set to 1 by `make test`: whatever `.ci/setup python jvm` installs is there."""
GO: Final = "GROUPSDK_REQUIRE_GO"
"""Set to 1 where Go is installed."""
BROWSER: Final = "GROUPSDK_REQUIRE_BROWSER"
"""Set to 1 where `.ci/setup browser` could install Chromium."""
PROMTOOL: Final = "GROUPSDK_REQUIRE_PROMTOOL"
"""Set to 1 where `.ci/setup promtool` could get promtool."""
OPTIONAL: Final = ("pyarrow", "pyspark")
"""The packages that tests may skip for by `pytest.importorskip`."""


def lacking(text: str, variable: str = KAFKA) -> Never:
    """Skip the test, or fail it where an environment variable is 1.

    Args:
        variable: `KAFKA`, `GO`, `BROWSER` or `PROMTOOL`.
    """
    if os.environ.get(variable) == "1":
        pytest.fail(f"{variable}=1: {text}", pytrace=False)
    pytest.skip(text)


def check_packages() -> None:
    """Fail under `make test` where `pytest.importorskip` would skip tests.

    Raises:
        UsageError: a package is missing, or something that it imports.
    """
    if os.environ.get(KAFKA) != "1":
        return
    # not here: tests fork this process, in which these packages would start threads
    code = f"import {', '.join(OPTIONAL)}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise pytest.UsageError(f"{KAFKA}=1: {done.stderr.strip()}: .ci/setup python installs it")
