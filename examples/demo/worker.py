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
from collections.abc import Mapping, Sequence
from itertools import islice, repeat, zip_longest
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from typing_extensions import override

from examples.demo.ledger import Record, ShardLedger
from examples.demo.texts import count_words, standard_library, units_of
from examples.demo.topic import ResultsReader, ResultsWriter
from groupsdk.errors import GroupSdkError
from groupsdk.shards import Lease, ShardWorker


_BATCH = 3
"""So many texts are counted before their results are written."""

Result = tuple[Lease, int, Counter[str]]
"""The shard's lease, the unit and the words of one text."""


def name_of(shard: int) -> str:
    """Return the name of a shard for the group."""
    return f"shard-{shard}"


def number_of(name: str) -> int:
    """Return the number of a shard, which is its partition in the topic of the results."""
    return int(name.removeprefix("shard-"))


def report(event: str, **details: object) -> None:
    """Tell the demo. The line is written at once: two threads report."""
    sys.stdout.write(json.dumps({"event": event, **details}) + "\n")
    sys.stdout.flush()


def stop_this_process() -> None:
    """Stop here, until SIGCONT. Sent to the process, another thread may get the signal, and this one runs on until it does."""
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


class WordCounter(ShardWorker):
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
        self._todo: dict[str, deque[int]] = {}
        self._writing = threading.Lock()
        self._failure: KafkaException | None = None
        self._pausing = False
        self._stopping = False

    # The group's side.

    @override
    def shards(self) -> list[str]:
        return [name_of(ledger.shard) for ledger in self._ledgers]

    @override
    def on_shards_gained(self, leases: Sequence[Lease]) -> None:
        mine = [self._ledgers[number_of(lease.name)] for lease in leases]
        # First the fence, then the reading: what a predecessor writes after it will not count, and what
        # it wrote before it is read here. The other way round, something could come between the two.
        fences = [
            Record(ledger.shard, lease.epoch, lease.holder)
            for ledger, lease in zip(mine, leases, strict=True)
        ]
        self._reader.read(mine, self._writer.write(fences))
        with self._writing:
            for ledger, lease in zip(mine, leases, strict=True):
                units = units_of(ledger.shard, len(self._ledgers), self._files)
                self._todo[lease.name] = deque(unit for unit in units if unit not in ledger.done)
        report(
            "gained",
            leader=self.snapshot().is_leader,
            shards=[ledger.shard for ledger in mine],
            done=sorted(unit for ledger in mine for unit in ledger.done),
        )

    @override
    def on_shards_released(self, names: Sequence[str]) -> None:
        with self._writing:  # what is being written is finished first, and nothing is written after
            for name in names:
                del self._todo[name]
        report("released", shards=[number_of(name) for name in names])

    @override
    def on_shards_lost(self, names: Sequence[str]) -> None:
        report("lost", shards=[number_of(name) for name in names])

    # The work.

    def run(self) -> None:
        """Take part in the group until `stop`, while a thread counts."""
        thread = threading.Thread(target=self._count_until_stopped, name="counting")
        thread.start()
        try:
            while not self._stopping and thread.is_alive():
                self.poll(0.5)
        finally:
            self._stopping = True
            thread.join()
        if self._failure is not None:
            raise self._failure

    def _count_until_stopped(self) -> None:
        try:
            while not self._stopping:
                if not self._work():
                    time.sleep(0.02)
        except KafkaException as error:
            self._failure = error

    def stop(self, *_: object) -> None:
        """Leave after the present batch; for a signal handler."""
        self._stopping = True
        self.wakeup()

    def pause_at_next_write(self, *_: object) -> None:
        """Stop this process before a write; for a signal handler."""
        self._pausing = True

    def _work(self) -> bool:
        """Do one batch, and tell whether there was one."""
        batch = [self._count(lease, unit) for lease, unit in self._next()]
        for result in batch:
            with self._writing:
                self._finish(result, pausing=self._pausing and len(batch) > 1)
        return bool(batch)

    def _next(self) -> list[tuple[Lease, int]]:
        """Return the next texts, of the shards in turn."""
        with self._writing:
            owned = [each for each in self.leases() if each.name in self._todo]
            rounds = zip_longest(*(zip(repeat(each), self._todo[each.name]) for each in owned))
            return list(islice((text for each in rounds for text in each if text), _BATCH))

    def _count(self, lease: Lease, unit: int) -> Result:
        counts = count_words(self._files[unit])
        time.sleep(self._pace_s)  # the work is too quick to be watched
        return lease, unit, counts

    def _finish(self, result: Result, *, pausing: bool) -> None:
        lease, unit, counts = result
        if unit not in self._todo.get(lease.name, ()):
            return  # released meanwhile: its next owner counts it
        shard = number_of(lease.name)
        if not lease.held():
            report("refused", shard=shard, unit=unit)
            self._todo[lease.name].remove(unit)
            return
        if pausing:
            self._pausing = False
            report("pausing", shard=shard, unit=unit)
            stop_this_process()
        record = Record(shard, lease.epoch, lease.holder, unit, counts)
        offset = self._writer.write([record])[shard]
        self._todo[lease.name].remove(unit)
        report("wrote late" if pausing else "counted", shard=shard, unit=unit, offset=offset)

    def close_clients(self) -> None:
        """Close the connections of the results."""
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
        "epoch.topic": None,  # the group is a new one each time
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
        worker.close_clients()
    except (GroupSdkError, KafkaException) as error:
        print(f"{options.name}: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
