"""Keep what the workers told: who has what, and how far the work is."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from examples.demo.crew import Event


@dataclass(slots=True)
class WorkerState:
    """One worker, as far as the demo knows."""

    name: str
    pid: int
    status: str = "starting"
    leader: bool = False
    counted: int = 0
    """Texts that it counted."""
    refused: int = 0
    """Writes that its own check refused."""
    late: int = 0
    """Writes that it did after it had lost the shard."""

    @property
    def gone(self) -> bool:
        """Tell whether the process has ended."""
        return self.status in ("killed", "left")


@dataclass(slots=True)
class Board:
    """All workers and all texts, and how long shards stood still."""

    shards: int
    units: int
    workers: dict[str, WorkerState] = field(default_factory=dict[str, WorkerState])
    done: set[int] = field(default_factory=set[int])
    """Texts whose counts are in the log."""
    stood: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """For each reason, how long each shard had no owner at work, in milliseconds."""
    _owners: dict[int, str] = field(default_factory=dict[int, str])
    _still: dict[int, tuple[str, int]] = field(default_factory=dict[int, tuple[str, int]])
    """Shards without an owner at work: why, and since when."""

    def update(self, name: str, event: Event, now_ms: int) -> None:
        """Take in what a worker told."""
        worker = self.workers[name]
        match event["event"]:
            case "gained":
                worker.status = "working"
                worker.leader = event["leader"]
                for shard in event["shards"]:
                    self._gained(shard, name, now_ms)
                self.done.update(event["done"])
            case "released":
                self._stand_still(
                    [each for each in event["shards"] if self._owners.get(each) == name],
                    "moved",
                    now_ms,
                )
            case "lost":
                worker.status = "expelled"
            case "pausing":
                worker.status = "paused"
                self.stop(name, "paused", now_ms)
            case "counted":
                worker.counted += 1
                self.done.add(event["unit"])
            case "wrote late":
                worker.late += 1
                worker.status = "zombie"
            case "refused":
                worker.refused += 1
            case "ended":
                worker.status = "left" if event["status"] == 0 else "killed"
                self._owners = {
                    shard: owner for shard, owner in self._owners.items() if owner != name
                }
            case _:
                raise ValueError(f"{name} told {event}, which the demo does not know")

    def stop(self, name: str, why: str, now_ms: int) -> None:
        """Note that all shards of a worker stand still from now on."""
        self._stand_still(self.shards_of(name), why, now_ms)

    def _stand_still(self, shards: Sequence[int], why: str, now_ms: int) -> None:
        for shard in shards:
            del self._owners[shard]
            self._still[shard] = why, now_ms

    def _gained(self, shard: int, name: str, now_ms: int) -> None:
        self._owners[shard] = name
        why, since_ms = self._still.pop(shard, ("", now_ms))
        if why:
            self.stood.setdefault(why, []).append(now_ms - since_ms)

    @property
    def refused(self) -> int:
        """Writes that workers refused themselves."""
        return sum(worker.refused for worker in self.workers.values())

    def owners(self) -> list[str]:
        """Return the owner of each shard; "" while it has none at work."""
        return [self._owners.get(shard, "") for shard in range(self.shards)]

    def shards_of(self, name: str) -> list[int]:
        """Return the shards that a worker has."""
        return [shard for shard, owner in enumerate(self.owners()) if owner == name]

    def shared_by(self, *names: str) -> bool:
        """Tell whether just these workers have all shards between them."""
        return set(self.owners()) == set(names)

    def busiest(self, *names: str) -> str:
        """Return which of these workers has most left to do."""
        return max(names, key=self._left)

    def _left(self, name: str) -> int:
        mine = set(self.shards_of(name))
        return sum(unit % self.shards in mine for unit in set(range(self.units)) - self.done)
