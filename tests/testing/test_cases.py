"""Cases of one idea run as one test, and no test starts a JVM or Go without the mark that says so."""

import inspect
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.cases import each_case


ROOT = Path(__file__).parents[2]


class Failed:
    """Takes the place of pytest's `subtests`, and keeps the cases that failed."""

    def __init__(self) -> None:
        self.cases: list[dict[str, Any]] = []

    @contextmanager
    def test(self, **case: Any) -> Iterator[None]:
        with pytest.raises((Exception, pytest.fail.Exception)):
            yield
        self.cases.append(case)


def test_cases_of_all_axes_run_and_those_that_fail_are_subtests() -> None:
    seen: list[tuple[int, str]] = []

    @each_case("number", range(4))
    @each_case(("kind", "limit"), [("low", 1), ("high", 3)])
    def body(number: int, kind: str, limit: int) -> None:
        seen.append((number, kind))
        if kind == "low":
            assert number <= limit
        else:
            with pytest.raises(ValueError, match="too"):
                _refuse(number)

    failed = Failed()
    body(subtests=failed)
    assert seen == [(number, kind) for number in range(4) for kind in ("low", "high")]
    assert failed.cases == [
        {"number": 0, "kind": "high", "limit": 3},
        {"number": 2, "kind": "low", "limit": 1},
        {"number": 3, "kind": "low", "limit": 1},
    ]


def _refuse(number: int) -> None:
    if number:
        raise ValueError("too many")


def test_cases_after_ten_failures_are_left_out() -> None:
    @each_case("number", range(70))
    def body(number: int) -> None:
        raise ValueError(f"no {number}")

    failed = Failed()
    with pytest.raises(pytest.fail.Exception, match="10 cases failed; the rest was left out"):
        body(subtests=failed)
    assert failed.cases == [{"number": number} for number in range(10)]


def test_parameter_without_cases_stays_a_fixture(tmp_path: Path) -> None:
    @each_case("number", range(2))
    def body(number: int, tmp_path: Path) -> None:
        (tmp_path / str(number)).touch()

    assert list(inspect.signature(body).parameters) == ["tmp_path", "subtests"]
    body(tmp_path=tmp_path, subtests=Failed())
    assert {each.name for each in tmp_path.iterdir()} == {"0", "1"}


def test_failed_case_fails_its_test_under_its_name(tmp_path: Path) -> None:
    path = tmp_path / "test_numbers.py"
    path.write_text(
        "from tests.support.cases import each_case\n\n"
        '@each_case("number", range(3))\ndef test_it(number):\n    assert number != 1\n'
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "SUBFAILED(number=" in done.stdout
    assert "contains 1 failed subtest" in done.stdout


def test_no_cases_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot fail"):
        each_case("number", [])
    with pytest.raises(TypeError, match="must be plain"):
        each_case("number", [pytest.param(1, id="one")])


def test_the_end_of_the_tests_time_ends_the_cases() -> None:
    seen = []

    @each_case("number", range(3))
    def body(number: int) -> None:
        seen.append(number)
        pytest.fail("Timeout (>60.0s) from pytest-timeout.")

    with pytest.raises(pytest.fail.Exception, match="pytest-timeout"):
        body(subtests=Failed())
    assert seen == [0]


@pytest.mark.parametrize("program", ["java", "javac", "go", "spark-submit"])
def test_a_test_without_a_mark_may_not_start_a_jvm_or_go(tmp_path: Path, program: str) -> None:
    path = tmp_path / program
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    with pytest.raises(pytest.fail.Exception, match=f"starts {program}: it needs one of the marks"):
        subprocess.run([str(path), "-cp", "jars"], check=False)


@pytest.mark.kafka
def test_a_test_with_a_mark_may(tmp_path: Path) -> None:
    path = tmp_path / "java"
    path.write_text("#!/bin/sh\nexit 3\n")
    path.chmod(0o755)
    assert subprocess.run([path, "-cp", "jars"], check=False).returncode == 3
