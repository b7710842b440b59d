"""Shard workers in processes of their own: each writes what it believes to hold, and when; a judge reads all of it."""

import argparse
import contextlib
import json
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

from groupsdk.clock import SystemClock
from groupsdk.errors import GroupSdkError
from groupsdk.shards import Lease, ShardWorker
from tests.support.processes import LedgerProcess


_SAMPLE_S = 0.01
_SHARDS = [f"shard-{number}" for number in range(12)]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a ledger: a callback, an error, or what the worker believed at some time from `at_ms` to `to_ms`."""

    kind: str
    at_ms: int
    to_ms: int
    epochs: dict[str, int]
    holder: str = ""
    text: str = ""


class ShardProcess(LedgerProcess):
    """Runs `main` below as a process.

    Args:
        ledger: the file that it writes to; beside it stands the file by which `hang` keeps it from releasing.
        release_s: how long a release takes.
        settings: of the worker; `newer_by` many bytes are added to what it says, as a newer version would.
    """

    def __init__(
        self,
        ledger: Path,
        *,
        release_s: float = 0.0,
        newer_by: int = 0,
        **settings: Any,
    ) -> None:
        self._hang = ledger.with_suffix(".hang")
        self.settings = settings
        super().__init__(
            "tests.shards.ledger",
            ledger,
            json.dumps({"release_s": release_s, "newer_by": newer_by, "settings": settings}),
        )

    def hang(self, on: bool = True) -> None:
        """Let releases hang, or go on."""
        if on:
            self._hang.touch()
        else:
            self._hang.unlink(missing_ok=True)

    def entries(self, kind: str) -> list[Entry]:
        """Return what it has written so far, of one kind."""
        return [each for line in self.lines() if (each := Entry(**line)).kind == kind]

    @property
    def held(self) -> dict[str, int]:
        """What it believed last."""
        believed = self.entries("believes")
        return believed[-1].epochs if believed else {}

    def drain(self) -> int:
        """Ask it to drain and end (SIGTERM), and return its exit status."""
        return self.send(signal.SIGTERM)


def all_held(processes: Iterable[ShardProcess]) -> bool:
    """Return whether these processes hold all shards, each by one of them."""
    names = [name for process in processes for name in process.held]
    return sorted(names) == sorted(_SHARDS)


def check_ledgers(*processes: ShardProcess) -> None:
    """Judge what all processes wrote: whoever holds a shard under an epoch, no one holds it afterwards under a lower one.

    Two processes hold one under the same epoch only if the second has taken the first one's group.instance.id.
    """
    seen: dict[str, list[tuple[int, int, int, int]]] = defaultdict(list)
    for number, process in enumerate(processes):
        for entry in process.entries("believes"):
            for name, epoch in entry.epochs.items():
                seen[name].append((entry.at_ms, entry.to_ms, epoch, number))
    for name, beliefs in seen.items():
        _check_order(name, beliefs)
        _check_epochs(name, beliefs, processes)


def _check_order(name: str, beliefs: list[tuple[int, int, int, int]]) -> None:
    known: list[tuple[int, int, int]] = []  # by when it was certainly believed, epoch, who
    for at_ms, to_ms, epoch, number in sorted(beliefs):
        for before_ms, greater, other in known:
            assert not (before_ms < at_ms and greater > epoch and other != number), (
                f"{name}: process {number} holds epoch {epoch} at {at_ms}, after process {other} held {greater} at"
                f" {before_ms}"
            )
        known = [each for each in known if each[1] > epoch] + [(to_ms, epoch, number)]


def _check_epochs(
    name: str, beliefs: list[tuple[int, int, int, int]], processes: Sequence[ShardProcess]
) -> None:
    owners: dict[int, set[int]] = defaultdict(set)
    for _, _, epoch, number in beliefs:
        owners[epoch].add(number)
    for epoch, numbers in owners.items():
        instances = {processes[number].settings.get("group_instance_id") for number in numbers}
        assert len(numbers) == 1 or (len(instances) == 1 and None not in instances), (
            f"{name}: epoch {epoch} was held by processes {sorted(numbers)}"
        )


class _LedgerWorker(ShardWorker):
    """Writes its callbacks into the ledger."""

    protocol_type = "ledger"

    def __init__(self, write: Callable[..., None], options: dict[str, Any], hang: Path) -> None:
        super().__init__(**options["settings"])
        self._write = write
        self._options = options
        self._hang = hang

    @override
    def metadata(self) -> dict[str, bytes]:
        return {
            name: data + bytes(self._options["newer_by"])
            for name, data in super().metadata().items()
        }

    @override
    def shards(self) -> list[str]:
        return _SHARDS

    @override
    def on_shards_gained(self, leases: Sequence[Lease]) -> None:
        self._write("gained", {lease.name: lease.epoch for lease in leases})

    @override
    def on_shards_released(self, names: Sequence[str]) -> None:
        self._write("releasing", dict.fromkeys(names, 0))
        time.sleep(self._options["release_s"])
        while self._hang.exists():
            time.sleep(0.01)
        self._write("released", dict.fromkeys(names, 0))

    @override
    def on_shards_lost(self, names: Sequence[str]) -> None:
        self._write("lost", dict.fromkeys(names, 0))


def main(arguments: Sequence[str] | None = None) -> None:
    """Work until SIGTERM, and drain then."""
    parser = argparse.ArgumentParser()
    parser.add_argument("ledger", type=Path)
    parser.add_argument("options", type=json.loads)
    given = parser.parse_args(arguments)
    clock = SystemClock()
    with given.ledger.open("a", buffering=1, encoding="utf-8") as file:

        def write(kind: str, epochs: dict[str, int], at_ms: int | None = None, **more: str) -> None:
            now_ms = clock.now_ms()
            line = {"kind": kind, "at_ms": now_ms if at_ms is None else at_ms, "to_ms": now_ms}
            file.write(json.dumps({**line, "epochs": epochs, **more}) + "\n")

        worker = _LedgerWorker(write, given.options, given.ledger.with_suffix(".hang"))
        signal.signal(signal.SIGTERM, lambda *_: worker.drain())
        over = threading.Event()

        def sample() -> None:
            every: dict[tuple[str, int, str], Lease] = {}
            while not over.wait(_SAMPLE_S):
                at_ms = clock.now_ms()
                # also those that it is giving up, and those of before: none of them may be held once another's is
                for lease in worker.shard_status().owned:
                    every[lease.name, lease.epoch, lease.holder] = lease
                held = {lease.name: lease.epoch for lease in every.values() if lease.held()}
                write("believes", held, at_ms)

        sampler = threading.Thread(target=sample, daemon=True)
        sampler.start()
        while not worker.drained:
            try:
                worker.poll(0.05)
            except GroupSdkError as error:
                write("error", {}, text=f"{type(error).__name__}: {error}")
                if error.fatal:
                    break
        worker.close(5)
        over.set()
        sampler.join(5)
        write("believes", {})


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
