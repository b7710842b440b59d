"""Holds the scripts of .ci: a failure is tried again, twice at most, and what passes then is told at the end."""

import os
import shutil
import subprocess
import sys
from pathlib import Path


ROOT = Path(__file__).resolve().parents[1]
TESTS = """
from pathlib import Path

import pytest


def seen(name):
    with Path(__file__).with_name(name).open("a+") as file:
        file.write(".")
        return file.tell()


def test_once():
    assert seen("once") == 2


def test_twice():
    assert seen("twice") == 3


def test_never():
    assert {never}


def test_always():
    pass
"""


UNSTABLE = "UNSTABLE: failed at first and passed alone:"
NAMES = ["  test_it.py::test_once", "  test_it.py::test_twice"]


def run_tests(folder: Path, never: str) -> tuple[int, list[str], str]:
    """Run .ci/tests in a folder of its own; return its exit code, its lines, and what it recorded."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "tests", folder / ".ci" / "tests")
    (folder / "test_it.py").write_text(TESTS.format(never=never), encoding="utf-8")
    record = folder / "unstable"
    done = subprocess.run(
        [folder / ".ci" / "tests", sys.executable, "-m", "pytest", "-q", "test_it.py"],
        env={**os.environ, "GROUPSDK_UNSTABLE": str(record), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.rstrip().split("\n")
    return done.returncode, lines, record.read_text(encoding="utf-8")


def test_what_passes_only_alone_is_named_in_the_last_lines(tmp_path: Path) -> None:
    code, lines, record = run_tests(tmp_path, never="True")
    assert code == 0
    assert lines[-3:] == [UNSTABLE, *NAMES]
    assert record == "\n".join([*NAMES, ""])


def test_it_is_named_beside_another_that_fails_again(tmp_path: Path) -> None:
    code, lines, record = run_tests(tmp_path, never="False")
    assert code == 1
    assert lines[-6:] == [UNSTABLE, *NAMES, "", "failed each time:", "  test_it.py::test_never"]
    assert record == "\n".join([*NAMES, ""])


def test_a_run_ends_with_the_unstable_tests(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    record = "@if [ $@ = test ]; then echo '  tests/test_a.py::test_b' >> $$GROUPSDK_UNSTABLE; fi"
    (tmp_path / "Makefile").write_text(f"check wheel site test:\n\t{record}\n", encoding="utf-8")
    done = subprocess.run([tmp_path / ".ci" / "run"], capture_output=True, text=True, check=False)
    lines = done.stdout.rstrip().split("\n")
    assert done.returncode == 0, done.stdout
    assert [line.split(" (")[0] for line in lines[-6:-2]] == [
        f"make {each}: passed" for each in ("check", "wheel", "site", "test")
    ]
    assert lines[-2:] == [
        "UNSTABLE, to be mended: failed at first and passed alone:",
        "  tests/test_a.py::test_b",
    ]
