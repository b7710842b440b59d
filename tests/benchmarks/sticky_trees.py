"""Time the sticky assignors of this tree beside those of another one, interleaved, in one run.

Run it with `python -m tests.benchmarks.sticky_trees OTHER [--only TEXT] [--rounds N] [--all]`, where OTHER is a work tree
of this repository (`git worktree add --detach /tmp/other COMMIT`).

Each tree has a process of its own that builds the groups of `sticky_shapes`. The two take turns, one assignment at a
time, and who goes first changes with each round, so that other work on the machine meets both alike. The figures are
the CPU milliseconds of one call of `assign`, least and median; "ratio" is this tree's time over the other's. The rows
of a million partitions take gigabytes, and run with `--all` only.
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final


_HERE: Final = Path(__file__).resolve()
_THIS: Final = _HERE.parents[2]
_LARGE: Final = 10**6
_ENOUGH_MS: Final = 300
"""What a tree's calls for one row take together at least: short ones are repeated more often."""

_KINDS: Final = ("cooperative", "sticky")
"""Alone on ready objects; and with the user data of all members to be read."""


class _Tree:
    """A process that assigns with the code of one tree."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            # -P: else this folder's modules would hide packages of the same name
            [sys.executable, "-P", str(_HERE), "--serve", str(path)],
            env={**os.environ, "PYTHONPATH": str(path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, command: str) -> Any:
        """Have the process do something, and return its answer.

        Raises:
            RuntimeError: it has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of a tree ended at {command!r}; its error is above")
        return json.loads(line)

    def close(self) -> None:
        self._process.communicate()


def serve(tree: str) -> None:
    """Build groups and assign them, as standard input says."""
    from assignors.cooperative_sticky import CooperativeStickyAssignor
    from assignors.sticky import StickyAssignor, __file__ as where
    from tests.benchmarks.sticky_assignor import make_case
    from tests.benchmarks.sticky_shapes import ROWS

    if Path(tree) not in Path(where).parents:
        raise SystemExit(f"{where} is not of {tree}")
    rows = {row.name: row for row in ROWS}
    calls: dict[str, Callable[[], Any]] = {}
    for line in sys.stdin:
        command = line.rstrip("\n")
        if command in rows:
            case = make_case(rows[command])
            cooperative, sticky = CooperativeStickyAssignor().assign, StickyAssignor().assign
            calls = {
                "cooperative": partial(cooperative, case.cluster, case.subscriptions()),
                "sticky": partial(sticky, case.cluster, case.subscriptions(user_data=True)),
            }
            answer: Any = "ready"
        elif command in calls:
            gc.collect()
            start = time.process_time_ns()
            calls[command]()
            answer = time.process_time_ns() - start
        else:
            answer = f"no row is called {command!r}"
        print(json.dumps(answer), flush=True)


def compare(other: Path, *, only: list[str], rounds: int, everything: bool) -> None:
    """Print a row for each group and assignor."""
    from tests.benchmarks.sticky_shapes import ROWS

    print(
        "| partitions x members | assignor | this: least, median | other: least, median"
        " | ratio: least, median |"
    )
    print("| --- | --- | --- | --- | --- |")
    trees = (_Tree(_THIS), _Tree(other.resolve()))
    try:
        for row in ROWS:
            if row.partitions >= _LARGE and not everything:
                continue
            if only and not any(text in row.name for text in only):
                continue
            for tree in trees:
                if (answer := tree.ask(row.name)) != "ready":
                    raise RuntimeError(answer)
            for kind in _KINDS:
                print(f"| {row.name} | {kind} | {_cells(trees, kind, rounds)} |", flush=True)
    finally:
        for tree in trees:
            tree.close()


def _cells(trees: tuple[_Tree, _Tree], kind: str, rounds: int) -> str:
    """Time one assignor on the group that both trees have built."""
    for tree in trees:
        tree.ask(kind)  # imports and caches what is needed
    taken: tuple[list[float], list[float]] = ([], [])
    while len(taken[0]) < rounds or sum(taken[0]) < _ENOUGH_MS:
        for index in (0, 1) if len(taken[0]) % 2 == 0 else (1, 0):
            taken[index].append(trees[index].ask(kind) / 1e6)
    least = [min(each) for each in taken]
    median = [statistics.median(each) for each in taken]
    cells = [f"{a:.1f}, {b:.1f}" for a, b in zip(least, median, strict=True)]
    return f"{cells[0]} | {cells[1]} | {least[0] / least[1]:.3f}, {median[0] / median[1]:.3f}"


def main(arguments: list[str]) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.sticky_trees",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("other", type=Path, help="a work tree of this repository")
    parser.add_argument("--only", action="append", default=[], help="part of a row's name")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--all", action="store_true", help="the largest groups, too")
    options = parser.parse_args(arguments)
    compare(options.other, only=options.only, rounds=options.rounds, everything=options.all)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    else:
        main(sys.argv[1:])
