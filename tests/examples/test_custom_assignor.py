"""Runs the example of an assignor of one's own as its reader would."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path


ROOT = Path(__file__).resolve().parents[2]


def test_it_holds_and_is_compared(tmp_path: Path) -> None:
    picture = tmp_path / "picture.svg"

    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "custom_assignor.py"), str(picture)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )

    assert "The contract holds on 400 groups." in done.stdout
    assert "tenant" in done.stdout
    assert "worker-9 joins" in done.stdout
    assert "b.orders-0 is with 'right'." in done.stdout
    assert ET.parse(picture).getroot().tag.endswith("svg")
