"""Show the board: a table that is redrawn in place on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Sequence
from itertools import groupby
from typing import Final, TextIO

from examples.demo.board import Board, WorkerState
from groupsdk.clock import SystemClock


_COLOURS: Final = (36, 33, 35, 32, 34, 31)  # of the workers, in the order of their start
_BAR_WIDTH: Final = 40
_PLAIN_EVERY_MS: Final = 3_000


def ranges(shards: Sequence[int]) -> str:
    """Write shard numbers shortly: 0-3 7."""
    groups = groupby(enumerate(sorted(shards)), key=lambda pair: pair[1] - pair[0])
    runs = [[shard for _, shard in group] for _, group in groups]
    return " ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


class Screen:
    """Prints to `out`; colours and redrawing only where it is a terminal."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._live = out.isatty()
        self._clock = SystemClock()
        self._start_ms = self._clock.now_ms()
        self._drawn = 0
        self._last_owners: list[str] = []
        self._last_ms = 0

    def say(self, text: str, *, strong: bool = False) -> None:
        """Print a line that stays, with the seconds since the start."""
        self._erase()
        line = f"{self._elapsed_ms() / 1000:5.1f} s  {text}"
        self._print(f"\x1b[1m{line}\x1b[0m" if strong and self._live else line)

    def show(self, board: Board) -> None:
        """Draw the board anew, or print what has changed since."""
        if self._live:
            lines = self._table(board)
            self._erase()
            self._print("\n".join(lines))
            self._drawn = len(lines)
            return
        owners = board.owners()
        now_ms = self._elapsed_ms()
        changed = owners != self._last_owners and all(owners)
        if changed or (board.done and now_ms - self._last_ms >= _PLAIN_EVERY_MS):
            self._last_ms = now_ms
            self._last_owners = owners if changed else self._last_owners
            self.say(self._summary(board, owners))

    def _summary(self, board: Board, owners: list[str]) -> str:
        shares = [
            f"{name} has {ranges([shard for shard, owner in enumerate(owners) if owner == name])}"
            for name in sorted(set(owners) - {""})
        ]
        free = owners.count("")
        shares += [f"{free} shards are between owners"] if free else []
        return f"{len(board.done):4d} of {board.units} texts: {', '.join(shares)}"

    def _table(self, board: Board) -> list[str]:
        colours = dict(zip(board.workers, _COLOURS, strict=False))
        filled = _BAR_WIDTH * len(board.done) // max(1, board.units)
        cells = [_paint("■", colours.get(owner)) if owner else "·" for owner in board.owners()]
        lines = [
            "",
            f"  texts   {'█' * filled}{'░' * (_BAR_WIDTH - filled)} {len(board.done)} of {board.units}",
            f"  shards  {''.join(cells)}",
        ]
        rows = [
            _row(each, board.shards_of(each.name), colours.get(each.name))
            for each in board.workers.values()
        ]
        return [*lines, *rows]

    def _erase(self) -> None:
        if self._drawn:
            self._out.write(f"\x1b[{self._drawn}F\x1b[J")
            self._drawn = 0

    def _print(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()

    def _elapsed_ms(self) -> int:
        return self._clock.now_ms() - self._start_ms


def _paint(text: str, colour: int | None) -> str:
    return text if colour is None else f"\x1b[{colour}m{text}\x1b[0m"


def _row(worker: WorkerState, shards: Sequence[int], colour: int | None) -> str:
    role = "leader" if worker.leader and not worker.gone else ""
    what = f"shards {ranges(shards)}" if shards else ""
    return (
        f"  {_paint(worker.name, colour)}  pid {worker.pid:<7} {worker.status:<8} {role:<6} "
        f"{worker.counted:4d} texts  {what}"
    )
