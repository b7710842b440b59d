"""Work on eight shards with the other workers of a group, and hand them over one by one before stopping.

    python examples/shard_worker.py                                     starts an embedded broker
    python examples/shard_worker.py --bootstrap-servers localhost:9092  joins the others there

Start it in several terminals. Ctrl-C or SIGTERM drains: the worker's shards move to the others, and only then it leaves.
With --instance-id a restart within the session moves nothing.
"""

import argparse
import signal
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from time import sleep
from typing import Any

from typing_extensions import override

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.shards import Lease, ShardWorker


class Job:
    """The work on one shard, on a thread of its own."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=lease.name)
        self._thread.start()

    def stop(self) -> None:
        """End the work, without waiting for it."""
        self._ending.set()

    def join(self) -> None:
        """Wait until nothing of it runs any more."""
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.is_set() and self._lease.held():
            do_some_work(self._lease.name, self._lease.epoch)


class Worker(ShardWorker):
    """One of the workers; `jobs` has what it works on at present."""

    protocol_type = "example-shard-worker"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self.jobs: dict[str, Job] = {}

    @override
    def shards(self) -> list[str]:
        return [f"shard-{number}" for number in range(8)]

    @override
    def on_shards_gained(self, leases: Sequence[Lease]) -> None:
        self.jobs.update({lease.name: Job(lease) for lease in leases})
        tell("gained", [lease.name for lease in leases])

    @override
    def on_shards_released(self, names: Sequence[str]) -> None:
        ending = [self.jobs.pop(name) for name in names]
        for job in ending:
            job.stop()
        for job in ending:
            job.join()  # another worker gains the shards once this returns
        tell("released", names)

    @override
    def on_shards_lost(self, names: Sequence[str]) -> None:
        for name in names:
            self.jobs.pop(name).stop()
        tell("lost", names)


def do_some_work(shard: str, fence: int) -> None:
    """Stand for yours: it writes its results for `shard` with the fence."""
    sleep(0.02)


def tell(what: str, names: Sequence[str]) -> None:
    """Print what has happened to some shards."""
    print(f"{what}: {' '.join(names)}", flush=True)


def main() -> None:
    """Work until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers", help="host:port; default: an embedded broker")
    parser.add_argument("--group-id", default="example-shard-workers")
    parser.add_argument("--instance-id", help="be a static member, with this group.instance.id")
    parser.add_argument("--session-timeout-ms", type=int, default=6_000)
    options = parser.parse_args()
    with ExitStack() as stack:
        servers = options.bootstrap_servers
        if servers is None:
            servers = stack.enter_context(EmbeddedBroker()).bootstrap_servers
        print("brokers:", servers, flush=True)
        worker = stack.enter_context(
            Worker(
                {
                    "bootstrap.servers": servers,
                    "group.id": options.group_id,
                    "group.instance.id": options.instance_id,
                    "session.timeout.ms": options.session_timeout_ms,
                    "heartbeat.interval.ms": min(1_000, options.session_timeout_ms // 6),
                }
            )
        )

        def stop(*_: object) -> None:
            worker.drain()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        while not worker.drained:
            worker.poll(1.0)
    print("left the group", flush=True)


if __name__ == "__main__":
    main()
