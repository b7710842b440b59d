"""Tests that are skipped, and warnings that are ignored: only where something may be missing, and with a reason."""

import re
from pathlib import Path

import pytest

from tests.support import missing


TESTS = Path(__file__).parent
SKIPS = re.compile(
    r"pytest\.skip\(|mark\.(skip|skipif|xfail|filterwarnings)|(simple|\b)filterwarnings\("
)
# `lacking` fails the test where the environment says that what it needs is there, and `check_packages` the run for
# what `importorskip` may name. These ask the machine for what no installation brings.
ALLOWED = {
    "drivers/engine/test_connect.py": "an IPv6 loopback, which containers may lack",
    "drivers/engine/test_through_the_member.py": "/proc, which Linux alone has",
    "drivers/hosts/test_process.py": "interrupts between two calls, when nothing owns the sockets yet",
    "drivers/test_caller.py": "turns a warning into an error",
    "support/missing.py": "`lacking` itself",
    "survival/mounts.py": "the right to mount a file system, which containers may lack",
    "user_code/test_member_code.py": "SystemExit of a callback ends the election's thread, as documented",
    "test_clock.py": "CLOCK_BOOTTIME, which Linux alone has",
    "test_layout.py": "only names long modules, where warnings are errors",
}


def test_nothing_else_skips_a_test_or_ignores_a_warning() -> None:
    found = {
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if SKIPS.search(path.read_text(encoding="utf-8"))
    }
    assert found == set(ALLOWED)


def test_packages_that_tests_skip_for_are_checked() -> None:
    pattern = re.compile(r"importorskip\(\"(\w+)\"")
    named = {
        name
        for path in TESTS.rglob("*.py")
        for name in pattern.findall(path.read_text(encoding="utf-8"))
    }
    assert named == set(missing.OPTIONAL)


def test_a_package_that_is_missing_fails_the_run_where_it_must_be_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(missing, "OPTIONAL", ("no_such_package",))
    monkeypatch.delenv(missing.KAFKA, raising=False)
    missing.check_packages()
    monkeypatch.setenv(missing.KAFKA, "1")
    with pytest.raises(pytest.UsageError, match="no_such_package"):
        missing.check_packages()


def test_required_tool_is_not_skipped_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(missing.GO, raising=False)
    with pytest.raises(pytest.skip.Exception, match="no Go"):
        missing.lacking("no Go", missing.GO)
    monkeypatch.setenv(missing.GO, "1")
    with pytest.raises(pytest.fail.Exception, match="no Go"):
        missing.lacking("no Go", missing.GO)
