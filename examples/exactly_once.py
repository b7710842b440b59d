"""Copy records from one topic to another, changed on the way: each exactly once, kill it when you like.

    python examples/exactly_once.py                                     starts an embedded broker, with records
    python examples/exactly_once.py --bootstrap-servers localhost:9092  copies there, from `--source`

Start several, each with its own `--name`, which it keeps when it is started again. `TransactionLoop` writes records and
offsets in one transaction, which carries the consumer's generation: a process that lost its partitions, asleep or cut
off, is refused by the broker, and nothing of its transaction is ever seen (KIP-447). A process whose producer is fenced
ends with status 75; have whatever runs it start it again.
"""

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.consumer import GroupConsumer
from groupsdk.consumer.transactions import Transaction, TransactionLoop
from groupsdk.errors import GroupSdkError


def change(value: bytes) -> bytes:
    """Stand for your work."""
    return value.upper()


def main() -> int:
    """Copy until SIGTERM or Ctrl-C."""
    options = arguments()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")

    def copy(records: Sequence[Message], transaction: Transaction) -> None:
        for record in records:
            transaction.produce(
                options.target, value=change(record.value() or b""), partition=record.partition()
            )

    with ExitStack() as stack:
        servers = options.bootstrap_servers
        if servers is None:
            servers = stack.enter_context(EmbeddedBroker()).bootstrap_servers
            prepare(servers, options.source, options.target)
        producer = Producer(
            {
                "bootstrap.servers": servers,
                "transactional.id": options.name,
                # how long the partitions of a process that died or sleeps may stand still
                "transaction.timeout.ms": options.transaction_timeout_ms,
                # or librdkafka 2.10 to 2.16 may hang once all nodes were away, until the loop ends the process
                "metadata.recovery.strategy": "none",
            }
        )
        consumer = stack.enter_context(GroupConsumer(settings(servers, options)))
        loop = TransactionLoop(consumer, producer, copy)

        def stop(*_: object) -> None:
            loop.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        consumer.subscribe(options.source)
        print("copies from", options.source, "to", options.target, flush=True)
        try:
            loop.run()
        except GroupSdkError as error:
            if not error.fatal:
                raise
            print("start me again:", error, file=sys.stderr)
            return 75
    print("left the group", flush=True)
    return 0


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers", help="host:port; default: an embedded broker")
    parser.add_argument("--source", default="words")
    parser.add_argument("--target", default="WORDS")
    parser.add_argument("--name", default="copier-1", help="the transactional.id")
    parser.add_argument("--static", action="store_true", help="use the name as group.instance.id")
    parser.add_argument("--assignor", default="cooperative-sticky")
    parser.add_argument("--session-timeout-ms", type=int, default=6_000)
    parser.add_argument("--transaction-timeout-ms", type=int, default=10_000)
    return parser.parse_args()


def settings(servers: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return those of the consumer."""
    given: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": f"copy-{options.source}",
        "enable.auto.commit": False,  # the offsets are part of the transactions
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": options.assignor,
        "session.timeout.ms": options.session_timeout_ms,
        "heartbeat.interval.ms": 500,
    }
    return given | ({"group.instance.id": options.name} if options.static else {})


def prepare(servers: str, source: str, target: str) -> None:
    """Make both topics, and write a few records."""
    admin = AdminClient({"bootstrap.servers": servers})
    for topic in (source, target):
        admin.create_topics([NewTopic(topic, 4, 1)])[topic].result()
    producer = Producer({"bootstrap.servers": servers})
    for number in range(1_000):
        producer.produce(source, f"word-{number}", partition=number % 4)
    producer.flush()


if __name__ == "__main__":
    sys.exit(main())
