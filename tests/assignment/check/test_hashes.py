"""Test that a function is called in a process where strings have other hashes."""

import os
import sys

import pytest

from groupsdk.assignment.check.hashes import with_other_hashes


def hashes(names: list[str]) -> list[str]:
    print("not a part of the result")
    return [str(hash(name)) for name in names]


def nested(names: list[str]) -> list[str]:
    return with_other_hashes(hashes, names) or ["none"]


@pytest.mark.parametrize("seed", [None, "1", "2"])
def test_strings_have_other_hashes(monkeypatch: pytest.MonkeyPatch, seed: str | None) -> None:
    if seed is not None:
        monkeypatch.setenv("PYTHONHASHSEED", seed)
    found = with_other_hashes(hashes, ["a", "b"])
    assert found is not None
    assert len(found) == 2
    assert set(found).isdisjoint(hashes(["a", "b"]))
    # whatever this process was started with, another seed than it says
    monkeypatch.setenv("PYTHONHASHSEED", "1" if seed == "2" else "2")
    assert seed is None or with_other_hashes(hashes, ["a", "b"]) != found


def test_the_other_process_starts_no_further_one() -> None:
    assert with_other_hashes(nested, ["a"]) == ["none"]


def test_nothing_is_told_where_the_function_is_not_known_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert with_other_hashes(lambda names: names, ["a"]) is None
    monkeypatch.setattr(hashes, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "hashes", hashes, raising=False)
    assert with_other_hashes(hashes, ["a"]) is None


def test_nothing_is_told_where_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", os.devnull)
    assert with_other_hashes(hashes, ["a"]) is None
