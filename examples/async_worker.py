"""Do the same as worker.py with asyncio: share out eight shards, each worked on by a task of its own.

    python examples/async_worker.py                                     starts an embedded broker
    python examples/async_worker.py --bootstrap-servers localhost:9092  joins the others there

The heartbeat does not run on this program's event loop: code that blocks the loop does not delay it.
"""

import argparse
import asyncio
import json
import signal
from contextlib import ExitStack

from typing_extensions import override

from assignors import assign_round_robin
from groupsdk import AsyncAbstractCoordinator, GroupMembers
from groupsdk.broker.embedded import EmbeddedBroker


SHARDS = [f"shard-{number}" for number in range(8)]


class Worker(AsyncAbstractCoordinator):
    """One of the workers: runs a task for each of its shards."""

    protocol_type = "example-async-worker"
    tasks: tuple[asyncio.Task[None], ...] = ()
    running = True

    @override
    def metadata(self) -> dict[str, bytes]:
        return {"round-robin": b""}

    @override
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> dict[str, bytes]:
        shares = assign_round_robin(SHARDS, members)
        return {member_id: json.dumps(share).encode() for member_id, share in shares.items()}

    @override
    async def on_join_prepare(self, generation: int, member_id: str) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks = ()

    @override
    async def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        shards = json.loads(assignment)
        self.tasks = tuple(asyncio.create_task(self.work(shard)) for shard in shards)
        print(f"generation {generation}: {' '.join(shards) or 'nothing'}", flush=True)

    @override
    async def on_leave_prepare(self) -> None:
        await self.on_join_prepare(-1, "")

    async def work(self, shard: str) -> None:
        """Work on one shard for as long as this worker surely owns it."""
        while (fence := self.generation_if_stable()) is not None:
            await do_some_work(shard, fence.generation_id)

    def stop(self) -> None:
        """End the loop, also when it is waiting."""
        self.running = False
        self.wakeup()


async def do_some_work(shard: str, fence: int) -> None:
    """Stand for yours: it writes its results for `shard` with the generation as a fence."""
    await asyncio.sleep(0.02)


async def main() -> None:
    """Work until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers", help="host:port; default: an embedded broker")
    parser.add_argument("--group-id", default="example-async-workers")
    parser.add_argument("--session-timeout-ms", type=int, default=6_000)
    settings = vars(parser.parse_args())
    settings["heartbeat_interval_ms"] = min(1_000, settings["session_timeout_ms"] // 6)
    with ExitStack() as stack:
        if settings["bootstrap_servers"] is None:
            settings["bootstrap_servers"] = stack.enter_context(EmbeddedBroker()).bootstrap_servers
        print("brokers:", settings["bootstrap_servers"], flush=True)
        async with Worker(settings) as worker:
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, worker.stop)
            while worker.running:
                await worker.poll(1.0)
    print("left the group", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
