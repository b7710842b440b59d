"""Share eight shards of work out among the workers of a group, and hand them over when one dies.

    python examples/worker.py                                     starts an embedded broker
    python examples/worker.py --bootstrap-servers localhost:9092  joins the others there

Start it in several terminals. Stop one with Ctrl-C or SIGTERM: its shards move at once. Kill one with
SIGKILL: they move when its session times out.
"""

import argparse
import json
import signal
from contextlib import ExitStack
from time import sleep

from typing_extensions import override

from assignors import assign_range
from groupsdk import AbstractCoordinator, GroupMembers
from groupsdk.broker.embedded import EmbeddedBroker


SHARDS = [f"shard-{number}" for number in range(8)]


class Worker(AbstractCoordinator):
    """One of the workers; `shards` is what it has to do at present."""

    protocol_type = "example-worker"
    shards: tuple[str, ...] = ()
    running = True

    @override
    def metadata(self) -> dict[str, bytes]:
        return {"range": b""}

    @override
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> dict[str, bytes]:
        shares = assign_range(SHARDS, members)
        return {member_id: json.dumps(share).encode() for member_id, share in shares.items()}

    @override
    def on_join_prepare(self, generation: int, member_id: str) -> None:
        self.shards = ()  # until the group has agreed, another member may have them

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self.shards = tuple(json.loads(assignment))
        print(f"generation {generation}: {' '.join(self.shards) or 'nothing'}", flush=True)

    def work(self) -> None:
        """Do a little for each shard, as long as this worker surely owns it."""
        for shard in self.shards:
            fence = self.generation_if_stable()
            if fence is None:  # out of the group, or this process slept past its session
                return
            do_some_work(shard, fence.generation_id)

    def stop(self, *_: object) -> None:
        """End the loop, also when it is waiting; a signal handler may call this."""
        self.running = False
        self.wakeup()


def do_some_work(shard: str, fence: int) -> None:
    """Stand for yours: it writes its results for `shard` with the generation as a fence."""
    sleep(0.02)


def main() -> None:
    """Work until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers", help="host:port; default: an embedded broker")
    parser.add_argument("--group-id", default="example-workers")
    parser.add_argument("--session-timeout-ms", type=int, default=6_000)
    settings = vars(parser.parse_args())
    settings["heartbeat_interval_ms"] = min(1_000, settings["session_timeout_ms"] // 6)
    with ExitStack() as stack:
        if settings["bootstrap_servers"] is None:
            settings["bootstrap_servers"] = stack.enter_context(EmbeddedBroker()).bootstrap_servers
        print("brokers:", settings["bootstrap_servers"], flush=True)
        worker = stack.enter_context(Worker(settings))
        signal.signal(signal.SIGTERM, worker.stop)
        signal.signal(signal.SIGINT, worker.stop)
        while worker.running:
            worker.poll(0.1)
            worker.work()
    print("left the group", flush=True)


if __name__ == "__main__":
    main()
