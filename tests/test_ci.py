"""Holds the scripts of .ci: tests on real processes are tried again, twice at most, and what passes then is told."""

import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest


ROOT = Path(__file__).resolve().parents[1]
TESTS = """
from pathlib import Path


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
NAMES = [
    "  tests/kafka/test_it.py::test_once (listed since 2026-11-02)",
    "  tests/kafka/test_it.py::test_twice (not listed: mend it, or add it to .ci/unstable)",
]
ENTRY = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)  (?P<id>(?P<file>\S+\.py)::(?P<name>\w+)\S*) (?P<cause>.+)"
)


CRASHING = """
import os
from pathlib import Path


def test_crash():
    with Path(__file__).with_name("crashes").open("a+") as file:
        file.write(".")
        if file.tell() == 1:
            file.close()
            os._exit(1)


def test_later():
    Path(__file__).with_name("later").touch()
"""


def run_tests(
    folder: Path, place: str, never: str = "True", *, tests: str = TESTS, options: str = ""
) -> tuple[int, list[str], Path]:
    """Run .ci/tests on a copy; return its exit code, its lines, and the file with what it recorded."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "tests", folder / ".ci" / "tests")
    (folder / ".ci" / "unstable").write_text(
        "# a comment\n2026-11-02  tests/kafka/test_it.py::test_once a slow start\n"
        "2026-11-03  tests/kafka/test_it.py::test_twice_as_much another\n",
        encoding="utf-8",
    )
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (folder / place).mkdir(parents=True)
    (folder / place / "test_it.py").write_text(tests.replace("{never}", never), encoding="utf-8")
    record = folder / "unstable"
    done = subprocess.run(
        [folder / ".ci" / "tests", sys.executable, "-m", "pytest", "-q", place],
        env={**os.environ, "GROUPSDK_UNSTABLE": str(record), "PYTEST_ADDOPTS": options},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.rstrip().split("\n"), record


def test_test_that_passes_only_alone_is_named_in_the_last_lines(tmp_path: Path) -> None:
    code, lines, record = run_tests(tmp_path, "tests/kafka", never="True")
    assert code == 0
    assert lines[-3:] == [UNSTABLE, *NAMES]
    assert record.read_text(encoding="utf-8") == "\n".join([*NAMES, ""])


def test_unstable_test_is_named_beside_one_that_fails_again(tmp_path: Path) -> None:
    code, lines, record = run_tests(tmp_path, "tests/kafka", never="False")
    assert code == 1
    again = "  tests/kafka/test_it.py::test_never"
    assert lines[-6:] == [UNSTABLE, *NAMES, "", "failed each time:", again]
    assert record.read_text(encoding="utf-8") == "\n".join([*NAMES, ""])


@pytest.mark.parametrize("place", ["tests/wire", "tests/connect", "tests/kafka_like"])
def test_a_failure_outside_of_the_real_processes_is_not_tried_again(
    tmp_path: Path, place: str
) -> None:
    code, lines, record = run_tests(tmp_path, place, never="True")
    assert code == 1
    assert lines[-2:] == [f"  {place}/test_it.py::test_{name}" for name in ("once", "twice")]
    assert (tmp_path / place / "once").read_text(encoding="utf-8") == "."
    assert not record.exists()


def run_with_a_crash(folder: Path, restarts: int) -> tuple[int, list[str], Path]:
    options = f"-v -n 1 --max-worker-restart {restarts} --randomly-dont-reorganize"
    return run_tests(folder, "tests/kafka", tests=CRASHING, options=options)


def test_a_process_that_ends_within_a_test_is_replaced_and_the_test_tried_again(
    tmp_path: Path,
) -> None:
    code, lines, _ = run_with_a_crash(tmp_path, restarts=1)
    assert code == 0
    assert lines[-2:] == [UNSTABLE, NAMES[1].replace("twice", "crash")]
    assert (tmp_path / "tests/kafka/later").exists()


def test_a_run_that_left_tests_out_since_too_many_processes_ended_has_failed(
    tmp_path: Path,
) -> None:
    code, lines, record = run_with_a_crash(tmp_path, restarts=0)
    assert code == 1
    assert "not all tests were run" in lines[-1]
    assert not (tmp_path / "tests/kafka/later").exists()
    assert not record.exists()


def tried_again() -> re.Pattern[str]:
    """Return the pattern of .ci/tests for the tests that it tries again."""
    script = (ROOT / ".ci" / "tests").read_text(encoding="utf-8")
    (pattern,) = re.findall(r"^again_in='\^  (.*)'$", script, re.MULTILINE)
    return re.compile(pattern)


def problems(entries: list[str], today: date) -> list[str]:
    """Return what is wrong with a list of unstable tests."""
    wrong = [] if len(entries) <= 10 else [f"{len(entries)} entries, at most 10"]
    for entry in entries:
        parts = ENTRY.fullmatch(entry)
        if parts is None:
            wrong.append(f"{entry!r} is not a day, two spaces, a test's id and the cause")
            continue
        age = today - date.fromisoformat(parts["day"])
        if not timedelta() <= age <= timedelta(days=14):
            wrong.append(f"{parts['id']}: {age.days} days old, at most 14")
        if not tried_again().match(parts["id"]):
            wrong.append(f"{parts['id']}: tests in this folder are not tried again")
        file = ROOT / parts["file"]
        if not file.exists() or f"def {parts['name']}(" not in file.read_text(encoding="utf-8"):
            wrong.append(f"{parts['id']}: no such test")
    return wrong


def test_the_unstable_tests_are_few_known_and_mended_in_time() -> None:
    lines = (ROOT / ".ci" / "unstable").read_text(encoding="utf-8").splitlines()
    entries = [line for line in lines if line and not line.startswith("#")]
    assert problems(entries, datetime.now(UTC).date()) == []


def test_a_list_of_unstable_tests_that_is_long_old_or_wrong_is_refused() -> None:
    today = date(2026, 11, 23)
    known = "tests/kafka/test_secured_cluster.py::test_a_rolling_restart"
    assert problems([f"2026-11-09  {known}[tls] a cause"] * 10, today) == []
    assert problems([f"2026-11-09  {known} a cause"] * 11, today) == ["11 entries, at most 10"]
    for entry, problem in {
        f"2026-11-08  {known} a cause": f"{known}: 15 days old, at most 14",
        f"2026-11-24  {known} a cause": f"{known}: -1 days old, at most 14",
        f"2026-11-09  {known}": f"'2026-11-09  {known}' is not a day, two spaces, a test's id and the cause",
        f"2026-11-09  {known}s a cause": f"{known}s: no such test",
        "2026-11-09  tests/test_ci.py::run_tests a cause": "tests/test_ci.py::run_tests: tests in this folder are not tried again",
    }.items():
        assert problems([entry], today) == [problem]


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
