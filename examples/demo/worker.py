"""One worker of the demo, a process of its own: `python -m examples.demo.worker --help`.

It tells the demo what it does in lines of JSON. SIGTERM makes it leave; SIGUSR1 makes it stop itself
(SIGSTOP) at the worst moment, between the check that it may write and the write.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from typing_extensions import override

from assignors import assign_range
from examples.demo.ledger import Record, ShardLedger
from examples.demo.texts import count_words, standard_library, units_of
from examples.demo.topic import ResultsReader, ResultsWriter
from groupsdk import AbstractCoordinator, Generation, GroupMembers
from groupsdk.errors import GroupSdkError


_BATCH = 3
"""So many texts are counted before their results are written."""

Result = tuple[int, int, Counter[str]]
"""Shard, unit and the words of one text."""


def report(event: str, **details: object) -> None:
    """Tell the demo."""
    print(json.dumps({"event": event, **details}), flush=True)


class WordCounter(AbstractCoordinator):
    """A member of the group that counts the words of its shards."""

    protocol_type = "groupsdk-demo"

    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        topic: str,
        files: list[Path],
        shards: int,
        pace_ms: int,
    ) -> None:
        super().__init__(settings)
        servers = settings["bootstrap.servers"]
        self._writer = ResultsWriter(servers, topic)
        self._reader = ResultsReader(servers, topic)
        self._files = files
        self._ledgers = [ShardLedger(shard) for shard in range(shards)]
        self._pace_s = pace_ms / 1000
        self._owned: Generation | None = None
        self._todo: deque[tuple[int, int]] = deque()
        self._pausing = False
        self._stopping = False

    # The group's side: the four methods, and the one that gives work up.

    @override
    def metadata(self) -> dict[str, bytes]:
        return {"range": b""}

    @override
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> dict[str, bytes]:
        shares = assign_range(range(len(self._ledgers)), members)
        return {member_id: json.dumps(share).encode() for member_id, share in shares.items()}

    @override
    def on_join_prepare(self, generation: int, member_id: str) -> None:
        self._todo.clear()
        if self._owned is not None:
            report("expelled" if generation < 0 else "rebalancing")
        self._owned = None

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        shares: list[int] = json.loads(assignment)
        mine = [self._ledgers[shard] for shard in shares]
        # First the fence, then the reading: what a predecessor writes after it will not count, and what
        # it wrote before it is read here. The other way round, something could come between the two.
        fences = [Record(each.shard, generation, member_id) for each in mine]
        self._reader.read(mine, self._writer.write(fences))
        shards = len(self._ledgers)
        self._todo.extend(
            (each.shard, unit)
            for each in mine
            for unit in units_of(each.shard, shards, self._files)
            if unit not in each.done
        )
        self._owned = Generation(generation, member_id, protocol)
        report(
            "owns",
            generation=generation,
            leader=self.snapshot().is_leader,
            shards=[each.shard for each in mine],
            done=sorted(unit for each in mine for unit in each.done),
        )

    # The work.

    def run(self) -> None:
        """Work until `stop`."""
        working = False
        while not self._stopping:
            self.poll(0 if working else 0.2)
            working = self._work()

    def stop(self, *_: object) -> None:
        """Leave after the present batch; for a signal handler."""
        self._stopping = True
        self.wakeup()

    def pause_at_next_write(self, *_: object) -> None:
        """Stop this process before a write; for a signal handler."""
        self._pausing = True

    def _work(self) -> bool:
        """Do one batch, and tell whether there was one and all of it could be written."""
        batch = [self._count(shard, unit) for shard, unit in list(self._todo)[:_BATCH]]
        refused = False
        for result in batch:
            generation = self.generation_if_stable()
            if generation is None or generation != self._owned:
                report("refused", shard=result[0], unit=result[1])
                refused = True
                continue
            late = self._pausing and len(batch) > 1 and self._pause(result, generation)
            self._write(result, generation, late=late)
        return bool(batch) and not refused

    def _count(self, shard: int, unit: int) -> Result:
        counts = count_words(self._files[unit])
        time.sleep(self._pace_s)  # the work is too quick to be watched
        return shard, unit, counts

    def _pause(self, result: Result, generation: Generation) -> bool:
        self._pausing = False
        shard, unit, _ = result
        report("pausing", shard=shard, unit=unit, generation=generation.generation_id)
        os.kill(os.getpid(), signal.SIGSTOP)
        return True

    def _write(self, result: Result, generation: Generation, *, late: bool) -> None:
        shard, unit, counts = result
        record = Record(shard, generation.generation_id, generation.member_id, unit, counts)
        offset = self._writer.write([record])[shard]
        self._todo.remove((shard, unit))
        report("wrote late" if late else "counted", shard=shard, unit=unit, offset=offset)

    @override
    def on_leave_prepare(self) -> None:
        self._reader.close()


def _die_with_the_demo() -> None:
    """End at once when the demo is gone: it holds the other end of our standard input."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(3)


def main() -> int:
    """Join the group and count until SIGTERM."""
    parser = argparse.ArgumentParser(description="one worker of the demo")
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--group-id", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--files", type=int, required=True)
    parser.add_argument("--shards", type=int, required=True)
    parser.add_argument("--pace-ms", type=int, required=True)
    parser.add_argument("--session-timeout-ms", type=int, required=True)
    options = parser.parse_args()
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the demo too, which ends us in order
    threading.Thread(target=_die_with_the_demo, daemon=True).start()
    settings = {
        "bootstrap.servers": options.bootstrap_servers,
        "group.id": options.group_id,
        "client.id": options.name,
        "session.timeout.ms": options.session_timeout_ms,
        "heartbeat.interval.ms": options.session_timeout_ms // 6,
    }
    worker = WordCounter(
        settings,
        topic=options.topic,
        files=standard_library(options.files),
        shards=options.shards,
        pace_ms=options.pace_ms,
    )
    signal.signal(signal.SIGTERM, worker.stop)
    signal.signal(signal.SIGUSR1, worker.pause_at_next_write)
    try:
        with worker:
            worker.run()
    except (GroupSdkError, KafkaException) as error:
        print(f"{options.name}: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
