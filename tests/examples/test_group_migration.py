"""Runs the test of a migration that docs/broker.md tells users to copy."""

import subprocess
import sys
from pathlib import Path

import pytest


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(300)
def test_the_test_to_copy_passes() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "examples/test_group_migration.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=220,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "examples/test_group_migration.py" in (ROOT / "docs/broker.md").read_text()
