"""Cases of one idea run as one test, and no test starts a JVM or Go without the mark that says so."""

import inspect
import subprocess
from pathlib import Path

import pytest

from tests.support.cases import each_case


def test_every_case_runs_and_the_failing_ones_are_named() -> None:
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

    with pytest.raises(AssertionError) as caught:
        body()
    assert seen == [(number, kind) for number in range(4) for kind in ("low", "high")]
    lines = str(caught.value).split("\n")
    assert lines[0] == "3 of 8 cases failed:"
    assert lines[1].startswith("  number=0, kind='high', limit=3: Failed: DID NOT RAISE")
    assert lines[2].startswith("  number=2, kind='low', limit=1: AssertionError: ")
    assert str(caught.value.__cause__).startswith("DID NOT RAISE")


def _refuse(number: int) -> None:
    if number:
        raise ValueError("too many")


def test_the_first_five_are_told_and_the_others_named() -> None:
    @each_case("number", range(70))
    def body(number: int) -> None:
        raise ValueError(f"no {number}")

    with pytest.raises(AssertionError) as caught:
        body()
    lines = str(caught.value).split("\n")
    assert lines[5] == "  number=4: ValueError: no 4"
    assert lines[6].startswith("  and number=5, number=6, ")
    assert lines[6].endswith("number=49, ...")


def test_parameter_without_cases_stays_a_fixture(tmp_path: Path) -> None:
    @each_case("number", range(2))
    def body(number: int, tmp_path: Path) -> None:
        (tmp_path / str(number)).touch()

    assert list(inspect.signature(body).parameters) == ["tmp_path"]
    body(tmp_path=tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {"0", "1"}


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
        body()
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
