"""Measure how fast `GroupConsumer` reads records, and what one costs.

Each measurement is a process of its own, `python -m tests.benchmarks.consumer_throughput PROTOCOL SERVERS TOPIC COUNT`,
that reads a topic from its beginning in batches and tells its rate and the CPU time of a record, of all its threads.
"""

import gc
import json
import subprocess
import sys
import time
import uuid
from typing import Final


PARTITIONS: Final = 8
_BATCH: Final = 1_000


def fill(servers: str, topic: str, size: int, count: int) -> None:
    """Write so many records of so many bytes."""
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 50, "batch.num.messages": 10_000}
    )
    value = b"x" * size
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def measure_once(protocol: str, servers: str, topic: str, count: int) -> dict[str, float]:
    """Return rate and CPU time of one run, in a process of its own."""
    module = "tests.benchmarks.consumer_throughput"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", module, protocol, servers, topic, str(count)],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _measure(protocol: str, servers: str, topic: str, count: int) -> dict[str, float]:
    from groupsdk.consumer import GroupConsumer

    consumer = GroupConsumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"throughput-{uuid.uuid4().hex[:8]}",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    got = 0
    while not got:  # joining and connecting are not what is measured
        got = len(consumer.consume(_BATCH, 1.0))
    # the collector is to look at records alone: what else there is, is that of a small program
    gc.collect()
    gc.freeze()
    first, began, cpu_s = got, time.perf_counter(), time.process_time()
    while got < count:
        # a batch is there until the next one, as in any program that does something with it
        batch = consumer.consume(_BATCH, 1.0)
        got += len(batch)
    elapsed_s, used_s = time.perf_counter() - began, time.process_time() - cpu_s
    return {"rate": (got - first) / elapsed_s, "cpu_us": used_s / (got - first) * 1e6}


def main(arguments: list[str]) -> None:
    protocol, servers, topic, count = arguments
    print(json.dumps(_measure(protocol, servers, topic, int(count))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
