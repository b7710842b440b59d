"""Tell the demo's story: three workers, one killed, one added, one paused until it is a zombie."""

import signal
from collections.abc import Callable

from examples.demo.board import Board, WorkerState
from examples.demo.crew import Crew, Event
from examples.demo.screen import Screen, ranges
from groupsdk.clock import Deadline, SystemClock


_STEP_TIMEOUT_MS = 60_000
_REDRAW_S = 0.1


class DemoError(Exception):
    """The story took another course than it should."""


class Story:
    """Directs the crew, and keeps board and screen up to date."""

    def __init__(self, crew: Crew, board: Board, screen: Screen) -> None:
        self._crew = crew
        self._board = board
        self._screen = screen
        self._doomed: set[str] = set()
        self._clock = SystemClock()

    def play(self) -> None:
        """Play from the first worker to the last text.

        Raises:
            DemoError: a worker ended by itself, or a step took more than a minute.
        """
        names = ["worker-1", "worker-2", "worker-3"]
        for name in names:
            self._start(name)
        self._until(lambda: self._board.shared_by(*names), "three workers to share the shards")
        self._reach(0.15)
        victim = self._kill(names)
        names.remove(victim)
        self._until(lambda: self._board.shared_by(*names), f"the others to take over from {victim}")
        self._reach(0.35)
        self._start("worker-4")
        names.append("worker-4")
        self._until(lambda: self._board.shared_by(*names), "worker-4 to get its share")
        self._reach(0.5)
        self._pause_and_wake(names)
        self._until(lambda: self._all_done, "the rest of the texts")
        self._screen.show(self._board)
        self._screen.say("all texts are counted; the workers leave")
        self._say_how_long_shards_stood_still()
        self._doomed.update(self._board.workers)
        self._crew.stop()

    def _say_how_long_shards_stood_still(self) -> None:
        reasons = {
            "moved": "moved to a worker that came",
            "killed": "of the killed worker, whose session had to end first",
            "paused": "of the paused worker, likewise",
        }
        for why, told in reasons.items():
            times = sorted(self._board.stood.get(why, []))
            if times:
                self._screen.say(
                    f"{len(times)} shards {told}: stood still for {times[len(times) // 2]} ms (median),"
                    f" {times[-1]} ms at most"
                )
        self._screen.say("all other shards kept running through every rebalance")

    def _start(self, name: str) -> None:
        pid = self._crew.start(name)
        self._board.workers[name] = WorkerState(name, pid)
        self._screen.say(f"{name} starts, pid {pid}", strong=True)

    def _kill(self, names: list[str]) -> str:
        victim = self._board.busiest(*names)
        self._doomed.add(victim)
        shards = ranges(self._board.shards_of(victim))
        self._crew.send(victim, signal.SIGKILL)
        self._board.stop(victim, "killed", self._clock.now_ms())
        self._screen.say(f"{victim} is killed (SIGKILL) at work on shards {shards}", strong=True)
        return victim

    def _pause_and_wake(self, names: list[str]) -> None:
        zombie = self._board.busiest(*names)
        worker = self._board.workers[zombie]
        others = [name for name in names if name != zombie]
        self._crew.send(zombie, signal.SIGUSR1)
        self._until(
            lambda: worker.status == "paused" or self._all_done, f"{zombie} to stop before a write"
        )
        if worker.status != "paused":
            self._screen.say(f"all texts were counted before {zombie} could be paused")
            return
        self._screen.say(
            f"{zombie} is paused (SIGSTOP) past its session, between its check and a write",
            strong=True,
        )
        self._until(
            lambda: self._board.shared_by(*others), f"the others to take over from {zombie}"
        )
        self._crew.send(zombie, signal.SIGCONT)
        self._screen.say(
            f"{zombie} wakes up (SIGCONT), a zombie with a result in its hand", strong=True
        )
        self._until(
            lambda: self._board.shared_by(*names) and bool(worker.late), f"{zombie} to come back"
        )

    @property
    def _all_done(self) -> bool:
        return len(self._board.done) == self._board.units

    def _reach(self, part: float) -> None:
        goal = part * self._board.units
        self._until(lambda: len(self._board.done) >= goal, f"{part:.0%} of the texts")

    def _until(self, reached: Callable[[], bool], what: str) -> None:
        deadline = Deadline(self._clock, _STEP_TIMEOUT_MS)
        while not reached():
            told = self._crew.next_event(_REDRAW_S)
            if told is not None:
                self._take_in(*told)
            self._screen.show(self._board)
            if deadline.expired:
                raise DemoError(f"waited {_STEP_TIMEOUT_MS // 1000} s in vain for {what}")

    def _take_in(self, name: str, event: Event) -> None:
        self._board.update(name, event, self._clock.now_ms())
        match event["event"]:
            case "ended" if name not in self._doomed:
                raise DemoError(f"{name} ended by itself, with status {event['status']}")
            case "wrote late":
                self._screen.say(
                    f"{name} writes text {event['unit']} late: offset {event['offset']} of shard"
                    f" {event['shard']}, behind the new owner's fence, so it does not count"
                )
            case "refused":
                self._screen.say(
                    f"{name} keeps back text {event['unit']}: its lease is not held any more"
                )
            case "lost":
                self._screen.say(
                    f"{name} learns that it has lost shards {ranges(event['shards'])}, and joins again"
                )
            case _:
                pass  # the board shows it
