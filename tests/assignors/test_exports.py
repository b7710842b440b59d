"""Holds the public names of assignors."""

import inspect
import subprocess
import sys

import pytest

import assignors


@pytest.mark.parametrize("name", assignors.__all__)
def test_every_name_is_there_and_says_what_it_does(name: str) -> None:
    value = getattr(assignors, name)

    assert value.__name__ == name
    assert inspect.getdoc(value)


def test_names_are_listed_once_and_in_order() -> None:
    assert list(assignors.__all__) == sorted(set(assignors.__all__))
    assert set(assignors.__all__) <= set(dir(assignors))


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'assignors' has no attribute 'rnage'"):
        _ = assignors.rnage


def test_nothing_is_imported_before_it_is_used() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import assignors, sys; print(*(name for name in sys.modules if 'assignors' in name))",
        ],
        check=True,
        capture_output=True,
        text=True,
    )

    assert set(done.stdout.split()) == {"assignors", "assignors.items"}
