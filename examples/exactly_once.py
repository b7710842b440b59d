"""Copy records from one topic to another, changed on the way: each exactly once, kill it when you like.

    python examples/exactly_once.py                                     starts an embedded broker, with records
    python examples/exactly_once.py --bootstrap-servers localhost:9092  copies there, from `--source`

Start several, each with its own `--name`, which it keeps when it is started again. Records and offsets are
written in one transaction, which carries the consumer's generation: whoever lost its partitions, asleep or cut
off, is refused by the broker, and nothing of its transaction is ever seen (KIP-447).
"""

import argparse
import signal
from contextlib import ExitStack

from confluent_kafka import KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.consumer import GroupConsumer
from groupsdk.errors import NoGenerationError


def change(value: bytes) -> bytes:
    """Stand for your work."""
    return value.upper()


class Copier:
    """Consumes, changes and produces, a batch of records to a transaction."""

    def __init__(self, consumer: GroupConsumer, producer: Producer, target: str) -> None:
        self.consumer, self.producer, self.target = consumer, producer, target
        self.running = True

    def stop(self, *_: object) -> None:
        """End the loop; a signal handler may call this."""
        self.running = False
        self.consumer.wakeup()

    def run(self) -> None:
        """Copy until somebody calls `stop`."""
        self.producer.init_transactions(30)
        while self.running:
            batch = self.consumer.consume(500, 1.0)
            if batch:
                self.copy(batch)

    def copy(self, batch: list[Message]) -> None:
        """Copy a batch, or nothing of it."""
        first: dict[tuple[str, int], TopicPartition] = {}
        self.producer.begin_transaction()
        try:
            for message in batch:
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                value = message.value()
                if message.error() or topic is None or partition is None or value is None:
                    continue
                first.setdefault((topic, partition), TopicPartition(topic, partition, offset or 0))
                self.producer.produce(self.target, change(value), partition=partition)
            # no poll since these were read: their generation is the present one, or there is none
            offsets = self.consumer.position(first.values())
            fence = self.consumer.snapshot().to_confluent()
            self.producer.send_offsets_to_transaction(offsets, fence, 30)
            self.producer.commit_transaction(30)
        except NoGenerationError:
            self.give_back(first)
        except KafkaException as error:
            if error.args[0].fatal():  # another process has taken this one's --name
                raise
            self.give_back(first)

    def give_back(self, first: dict[tuple[str, int], TopicPartition]) -> None:
        """Undo a batch, and read again what is still this consumer's."""
        self.producer.abort_transaction(30)
        owned = set(self.consumer.assignment())
        for where, start in first.items():
            if where in owned:
                self.consumer.seek(start)


def main() -> None:
    """Copy until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers", help="host:port; default: an embedded broker")
    parser.add_argument("--source", default="words")
    parser.add_argument("--target", default="WORDS")
    parser.add_argument("--name", default="copier-1", help="the transactional.id")
    parser.add_argument("--session-timeout-ms", type=int, default=6_000)
    options = parser.parse_args()
    with ExitStack() as stack:
        servers = options.bootstrap_servers
        if servers is None:
            servers = stack.enter_context(EmbeddedBroker()).bootstrap_servers
            prepare(servers, options.source, options.target)
        settings = {"bootstrap.servers": servers, "group.id": f"copy-{options.source}"}
        times = {"session.timeout.ms": options.session_timeout_ms, "heartbeat.interval.ms": 500}
        producer = Producer({"bootstrap.servers": servers, "transactional.id": options.name})
        consumer = stack.enter_context(
            GroupConsumer(settings | times, enable_auto_commit=False, auto_offset_reset="earliest")
        )
        copier = Copier(consumer, producer, options.target)
        signal.signal(signal.SIGTERM, copier.stop)
        signal.signal(signal.SIGINT, copier.stop)
        consumer.subscribe(options.source)
        print("copies from", options.source, "to", options.target, flush=True)
        copier.run()
    print("left the group", flush=True)


def prepare(servers: str, source: str, target: str) -> None:
    """Make both topics, and write a few records."""
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic(source, 4, 1), NewTopic(target, 4, 1)]).values():
        future.result()
    producer = Producer({"bootstrap.servers": servers})
    for number in range(1_000):
        producer.produce(source, f"word-{number}", partition=number % 4)
    producer.flush()


if __name__ == "__main__":
    main()
