"""Call a function in another process, where strings have other hashes, and sets of them another order."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import TypeVar


_SEEDS = ("1", "2")
_TIMEOUT_S = 60
_PROGRAM = "from groupsdk.assignment.check.hashes import answer; answer()"

T = TypeVar("T")

_other = [False]
"""Whether this is the other process, which starts no further one: a module may check its assignors as it is imported."""


def with_other_hashes(function: Callable[[T], list[str]], argument: T) -> list[str] | None:
    """Return what a function returns in another process; None where the process cannot have the function or argument.

    That is where one of them cannot be pickled, or is of a module that only this process has, as `__main__`.
    """
    if _other[0]:
        return None
    try:
        question = pickle.dumps((function, argument))
    except Exception:  # noqa: BLE001 - pickling raises what the objects in it raise
        return None
    seed = next(each for each in _SEEDS if each != os.environ.get("PYTHONHASHSEED"))
    path = os.pathsep.join(filter(None, sys.path))
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            input=question,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    result: list[str] = json.loads(done.stdout)
    return result


def answer() -> None:
    """Read a function and its argument from the standard input, and write what it returns; run in the other process."""
    _other[0] = True
    with os.fdopen(os.dup(1), "w") as output:
        # What the function prints is not to be in the result.
        os.dup2(2, 1)
        function, argument = pickle.loads(sys.stdin.buffer.read())
        json.dump(function(argument), output)
