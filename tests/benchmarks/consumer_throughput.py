"""Measure how fast records are consumed, and what one costs, beside the other Python clients.

Each measurement is a process of its own, `python -m tests.benchmarks.consumer_throughput CLIENT ...`, that reads a
topic from its beginning in batches and tells its rate and its CPU time per record, of all its threads.
"""

import argparse
import asyncio
import gc
import json
import resource
import statistics
import subprocess
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from groupsdk.testing import LocalKafka
from tests.benchmarks.observer import create_topic
from tests.benchmarks.report import Result, spread


CLIENTS: Final = (
    *("groupsdk", "confluent-kafka, set alike", "confluent-kafka"),
    *("kafka-python", "aiokafka"),
)
_SIZES: Final = {100: 2_000_000, 1_000: 300_000}
_SLOW: Final = {"kafka-python": 10, "aiokafka": 5}
"""By how much fewer records these are measured with."""
_PARTITIONS: Final = 8
_BATCH: Final = 1_000
_WITHIN: Final = 1.05
_NOTE: Final = (
    'The broker is on the same cores, so look at the CPU time first. "Set alike": with the one setting of'
    " librdkafka that groupsdk chooses otherwise, fetch.queue.backoff.ms=20. All have called gc.freeze() before: the"
    " records make Python's collector go through all objects of the process again and again, which costs more the"
    " more it has imported."
)


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
                producer.produce(topic, value, partition=number % _PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


# What each client does, in its process.


def _settings(servers: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": servers,
        "group.id": f"throughput-{uuid.uuid4().hex[:8]}",
        "auto.offset.reset": "earliest",
    }


def _batches(client: str, servers: str, topic: str) -> Callable[[], Any]:
    consumer: Any
    if client.startswith("groupsdk"):
        from groupsdk.consumer import GroupConsumer

        new = {"group.protocol": "consumer"} if client != "groupsdk" else {}
        consumer = GroupConsumer(_settings(servers) | new)
        consumer.subscribe([topic])
        return lambda: consumer.consume(_BATCH, 1.0)
    if client.startswith("confluent-kafka"):
        from confluent_kafka import Consumer

        alike = {"fetch.queue.backoff.ms": 20} if client != "confluent-kafka" else {}
        consumer = Consumer(_settings(servers) | alike)
        consumer.subscribe([topic])
        return lambda: consumer.consume(_BATCH, 1.0)
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=f"throughput-{uuid.uuid4().hex[:8]}",
        auto_offset_reset="earliest",
    )
    return lambda: consumer.poll(1_000, max_records=_BATCH)


def _count(batch: Any) -> int:
    """Return how many records a batch has; kafka-python's and aiokafka's are by partition."""
    return sum(map(len, batch.values())) if isinstance(batch, dict) else len(batch)


def _measure(take: Callable[[], Any], count: int) -> dict[str, float]:
    got = 0
    while not got:  # joining and connecting are not what is measured
        got = _count(take())
    _freeze()
    first, began, cpu = got, time.perf_counter(), _cpu_s()
    while got < count:
        batch = (
            take()
        )  # which is there until the next one, as in any program that does something with it
        got += _count(batch)
    elapsed_s = time.perf_counter() - began
    return {"rate": (got - first) / elapsed_s, "cpu_us": (_cpu_s() - cpu) / (got - first) * 1e6}


async def _measure_aiokafka(servers: str, topic: str, count: int) -> dict[str, float]:
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=f"throughput-{uuid.uuid4().hex[:8]}",
        auto_offset_reset="earliest",
    )
    await consumer.start()
    got = 0
    while not got:
        got = _count(await consumer.getmany(timeout_ms=1_000, max_records=_BATCH))
    _freeze()
    first, began, cpu = got, time.perf_counter(), _cpu_s()
    while got < count:
        batch = await consumer.getmany(timeout_ms=1_000, max_records=_BATCH)
        got += _count(batch)
    elapsed_s = time.perf_counter() - began
    used_s = _cpu_s() - cpu
    await consumer.stop()
    return {"rate": (got - first) / elapsed_s, "cpu_us": used_s / (got - first) * 1e6}


def _freeze() -> None:
    """Have the collector look at records alone: what else there is, is that of a small program."""
    gc.collect()
    gc.freeze()


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


# What compares them.


def measure_once(client: str, servers: str, topic: str, count: int) -> dict[str, float]:
    """Return rate and CPU time of one run, in a process of its own."""
    module = "tests.benchmarks.consumer_throughput"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", module, client, servers, topic, str(count)],
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def run(kafka: LocalKafka, options: list[str], *, quick: bool) -> Result:
    """Measure all clients at all sizes, in turn."""
    parser = argparse.ArgumentParser(prog="consumer_throughput")
    parser.add_argument("--rounds", type=int, default=5 if quick else 9)
    rounds = parser.parse_args(options).rounds
    result = Result(
        "consumer_throughput",
        f"Records consumed, in batches of up to {_BATCH}: thousands a second, and CPU per record",
        ("client", *(f"{size} B: k records/s | {size} B: CPU µs/record" for size in _SIZES)),
        notes=[_NOTE],
    )
    figures: defaultdict[tuple[str, int], list[dict[str, float]]] = defaultdict(list)
    for size, count in _SIZES.items():
        topic = f"throughput-{size}"
        create_topic(kafka.bootstrap_servers, topic, _PARTITIONS)
        fill(kafka.bootstrap_servers, topic, size, count)
        for _ in range(rounds):
            for client in CLIENTS:
                wanted = count // _SLOW.get(client, 1)
                figures[client, size].append(
                    measure_once(client, kafka.bootstrap_servers, topic, wanted)
                )
    for client in CLIENTS:
        cells = [client]
        for size in _SIZES:
            runs = figures[client, size]
            cells.append(spread((each["rate"] / 1000 for each in runs), 0))
            cells.append(spread(each["cpu_us"] for each in runs))
        result.rows.append(cells)
    for size in _SIZES:
        ours, bare = (
            statistics.median(each["cpu_us"] for each in figures[client, size])
            for client in CLIENTS[:2]
        )
        if ours > bare * _WITHIN:
            result.behind.append(f"{size} B: {ours / bare - 1:.0%} more CPU than confluent-kafka")
    result.raw = {f"{client} {size}": runs for (client, size), runs in figures.items()}
    return result.finish()


def main() -> None:
    client, servers, topic, count = sys.argv[1:]
    if client == "aiokafka":
        print(json.dumps(asyncio.run(_measure_aiokafka(servers, topic, int(count)))), flush=True)
    else:
        print(json.dumps(_measure(_batches(client, servers, topic), int(count))), flush=True)


if __name__ == "__main__":
    main()
