"""Keep what the workers told: who has what, and how far the work is."""

from dataclasses import dataclass, field

from examples.demo.crew import Event


@dataclass(slots=True)
class WorkerState:
    """One worker, as far as the demo knows."""

    name: str
    pid: int
    status: str = "starting"
    generation: int = -1
    leader: bool = False
    shards: tuple[int, ...] = ()
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
    """All workers and all texts."""

    shards: int
    units: int
    workers: dict[str, WorkerState] = field(default_factory=dict[str, WorkerState])
    done: set[int] = field(default_factory=set[int])
    """Texts whose counts are in the log."""

    def update(self, name: str, event: Event) -> None:
        """Take in what a worker told."""
        worker = self.workers[name]
        match event["event"]:
            case "owns":
                worker.status = "working"
                worker.generation = event["generation"]
                worker.leader = event["leader"]
                worker.shards = tuple(event["shards"])
                self.done.update(event["done"])
            case "rebalancing" | "expelled":
                worker.status = event["event"]
            case "pausing":
                worker.status = "paused"
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
                worker.shards = ()
            case _:
                raise ValueError(f"{name} told {event}, which the demo does not know")

    @property
    def generation(self) -> int:
        """The newest generation that a worker is in."""
        return max((worker.generation for worker in self.workers.values()), default=-1)

    @property
    def refused(self) -> int:
        """Writes that workers refused themselves."""
        return sum(worker.refused for worker in self.workers.values())

    def owners(self) -> list[str]:
        """Return the owner of each shard in the newest generation; "" while it has none."""
        owners = [""] * self.shards
        for worker in self.workers.values():
            if worker.generation == self.generation and worker.status == "working":
                for shard in worker.shards:
                    owners[shard] = worker.name
        return owners

    def shared_by(self, *names: str) -> bool:
        """Tell whether just these workers have all shards between them."""
        return set(self.owners()) == set(names)

    def busiest(self, *names: str) -> str:
        """Return which of these workers has most left to do."""
        return max(names, key=self._left)

    def _left(self, name: str) -> int:
        mine = set(self.workers[name].shards)
        return sum(unit % self.shards in mine for unit in set(range(self.units)) - self.done)
