"""Make some history on an embedded broker, stop it, and explain it: who came and went, why, and what it moved.

    python -m examples.history_embedded [DIRECTORY]

Three clients share eight partitions out. One is restarted, one dies without a word, the last one closes up.
The history is read from the broker's files alone, as it is from a real broker's.
"""

import argparse
import tempfile
from pathlib import Path

from confluent_kafka import Producer

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.consumer import GroupConsumer
from groupsdk.types import GroupMembershipOperation


TOPIC = "orders"
PARTITIONS = 8
SESSION_MS = 3_000


class Crew:
    """The consumers of one group, all of them polled by this thread."""

    def __init__(self, servers: str) -> None:
        self.settings = {
            "bootstrap.servers": servers,
            "group.id": "checkout",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 200,
            "session.timeout.ms": SESSION_MS,
            "partition.assignment.strategy": "range",
        }
        self.producer = Producer({"bootstrap.servers": servers, "log_level": 4})
        self.members: dict[str, GroupConsumer] = {}
        self.generation = 0

    def comes(self, name: str) -> None:
        """Let a member come."""
        self.members[name] = GroupConsumer({**self.settings, "client.id": name})
        self.members[name].subscribe(TOPIC)
        self.work()

    def goes(self, name: str, how: GroupMembershipOperation) -> None:
        """Let a member go; one that remains has died, as far as the broker knows."""
        self.members.pop(name).close(operation=how)
        if self.members:
            self.work()

    def work(self) -> None:
        """Poll until the group has rebalanced, then read some records and commit them."""
        numbers = {self.generation}
        while len(numbers) > 1 or max(numbers) <= self.generation:
            for each in self.members.values():
                each.poll(0.02)
            stable = [each.generation_if_stable() for each in self.members.values()]
            numbers = {0 if each is None else each.generation_id for each in stable}
        self.generation = max(numbers)
        for number in range(PARTITIONS * 5):
            self.producer.produce(TOPIC, b"an order", partition=number % PARTITIONS)
        self.producer.flush()
        for name, each in self.members.items():
            each.consume(100, 1.0)
            each.commit(asynchronous=False)
            print(f"generation {self.generation}: {name} has {len(each.assignment())} partitions")


def make_history(data_dir: Path) -> None:
    """Let a group live for some seconds on a broker that keeps its log here."""
    leaves, dies = GroupMembershipOperation.LEAVE_GROUP, GroupMembershipOperation.REMAIN_IN_GROUP
    with EmbeddedBroker(data_dir=data_dir, topics={TOPIC: PARTITIONS}) as broker:
        crew = Crew(broker.bootstrap_servers)
        for name in ("shop-0", "shop-1", "shop-2"):
            crew.comes(name)
        crew.goes("shop-1", leaves)
        crew.comes("shop-1")
        crew.goes("shop-2", dies)
        for name in ("shop-1", "shop-0"):
            crew.goes(name, leaves)


def main(root: Path) -> int:
    """Make the history and explain it; returns the exit code."""
    make_history(root / "broker")
    from groupsdk.cli.main import main as groupsdk

    log = ["run", "--segments", str(root / "broker"), "--out", str(root / "tables")]
    return groupsdk(
        ["history", *log, "--master", "local[2]", "--title", "Some seconds of a broker"]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", nargs="?", type=Path, help="default: a new one")
    place = parser.parse_args().directory or Path(tempfile.mkdtemp(prefix="history-embedded-"))
    raise SystemExit(main(place))
