"""Runs the example of an assignor of one's own as its reader would."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from groupsdk.assignment import PARTS


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "name", ["custom_assignor", "history_day", "history_embedded", "history_sample"]
)
def test_help_of_an_example_does_nothing_else(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"examples.{name}", "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert "usage:" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_custom_assignor_example_is_checked_and_compared(tmp_path: Path) -> None:
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


def test_the_whole_assignor_of_the_page_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/assignors.md").read_text(encoding="utf-8")
    (program,) = (
        block
        for block in re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
        if "class WholeTopics" in block
    )
    namespace: dict[str, object] = {}

    exec(program, namespace)

    assert capsys.readouterr().out == "400 groups checked\n"
    # the table before it names every part
    assert re.findall(r"^\| `(\w+)", page.partition("An assignor of your own")[2], re.MULTILINE)[
        :6
    ] == list(PARTS)
