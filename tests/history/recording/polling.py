"""Record members that poll too seldom: `python -m tests.history.recording.polling DIRECTORY`.

Starts a real broker. In each group one member after the other works for longer than its `max.poll.interval.ms`, so that its client
leaves by itself while its process lives, another one is killed, and a third one closes. DIRECTORY gets `segments`,
`coordinator-log.txt`, and `deeds.txt`, what was done when.
"""

import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Final

from tests.history.recording.peers import Settings, start
from tests.history.recording.record import Deeds, recorded, sleep, together, topics_with_records


SESSION_MS: Final = 4_000
POLL_MS: Final = 12_000
_PROPERTIES: Final = {
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "200",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "300",
}
GROUPS: Final = {
    "polling": ("librdkafka", "classic"),
    "polling-java": ("java", "classic"),
    "polling-modern": ("librdkafka", "consumer"),
    "polling-java-modern": ("java", "consumer"),
}
"""The library and protocol of each group."""


def play(group: str, servers: str, deeds: Deeds) -> None:
    library, protocol = GROUPS[group]
    there = {}
    for name in ("a", "b", "c", "d"):
        deeds.tell(group, "join", name)
        settings = Settings(
            *(servers, group, name, ("orders",)),
            session_ms=SESSION_MS,
            poll_ms=POLL_MS,
            protocol=protocol,
        )
        there[name] = start(library, settings)
        sleep(4)
    for name in ("a", "b"):
        deeds.tell(group, "work", name)
        there[name].work(POLL_MS / 1000 + 6)
        sleep(POLL_MS / 1000 + 12)
    deeds.tell(group, "kill", "c")
    there.pop("c").kill()
    sleep(12)
    deeds.tell(group, "close", "d")
    there.pop("d").close()
    sleep(5)
    for peer in there.values():
        peer.close()


def record(out: Path) -> None:
    with recorded(out, _PROPERTIES) as (kafka, deeds):
        servers = kafka.bootstrap_servers
        with topics_with_records(servers):
            together(partial(play, group, servers, deeds) for group in GROUPS)
    shutil.rmtree(out / "kafka")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
