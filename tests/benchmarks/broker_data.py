"""Measure Produce and Fetch through confluent-kafka, and the loading of a long `__consumer_offsets`."""

import contextlib
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tests.benchmarks.broker_load import (
    COMMIT_VERSION,
    ask,
    check_commit,
    connected,
    find_coordinator,
    frame_of,
    receive,
)
from tests.benchmarks.broker_servers import (
    KAFKA,
    OURS,
    PARTITIONS,
    TOPIC,
    UVLOOP,
    Server,
    groupsdk,
    in_turn,
    running_kafka,
    servers,
)
from tests.benchmarks.report import Result, load, options_of, spread


_RECORD: Final = b"r" * 100
_MIXED: Final = tuple(b"r" * (50 + 37 * number % 101) for number in range(10_007))
"""Sizes of 50 to 150 bytes; no two records of a batch that stand beside each other have the same one."""
_USED: Final = 4
_TIMEOUT_S: Final = 60
_GROUPS: Final = 100
_FETCH_VERSION: Final = 8
_LOADED: Final = re.compile(
    r"__consumer_offsets-0: loaded \d+ records in (\d+) ms"
    r"|Finished loading of metadata from __consumer_offsets-0 .*? in (\d+)ms"
)
"""As ours says it, and as Kafka does."""


def produce(
    server: Server, count: int, values: Sequence[bytes] = (_RECORD,), compression: str = "none"
) -> tuple[float, float]:
    """Write records of these values in turn with acks=all; returns records a second, and the broker's CPU us of one."""
    producer = Producer(
        {
            "bootstrap.servers": server.address,
            "acks": "all",
            "compression.type": compression,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 3,
        }
    )
    producer.produce(TOPIC, b"first", partition=0)
    if producer.flush(_TIMEOUT_S):
        raise TimeoutError("nothing can be written")
    cpu_s, start = server.cpu_s(), time.perf_counter()
    for number in range(count):
        value = values[number % len(values)]
        producer.produce(TOPIC, value, partition=number % _USED)
        if not number % 1000:
            producer.poll(0)
    if producer.flush(_TIMEOUT_S):
        raise TimeoutError("not everything was written")
    return _rate_and_cpu(server, count, start, cpu_s)


def _rate_and_cpu(server: Server, count: int, start_s: float, cpu_s: float) -> tuple[float, float]:
    return count / (time.perf_counter() - start_s), (server.cpu_s() - cpu_s) * 1e6 / count


def fetch(server: Server, count: int) -> tuple[float, float]:
    """Read so many records from the start; returns records a second, and the broker's CPU us of one."""
    consumer = Consumer(
        {
            "bootstrap.servers": server.address,
            "group.id": "reader",
            "enable.auto.commit": False,
            "log_level": 3,
        }
    )
    try:
        consumer.assign([TopicPartition(TOPIC, each, 0) for each in range(_USED)])
        seen = 0
        give_up = time.monotonic() + _TIMEOUT_S
        cpu_s, start = server.cpu_s(), time.perf_counter()
        while seen < count:
            seen += len(consumer.consume(10_000, 0.2))
            if time.monotonic() > give_up:
                raise TimeoutError(f"{seen} of {count} records within {_TIMEOUT_S} s")
        return _rate_and_cpu(server, count, start, cpu_s)
    finally:
        consumer.close()


def fill(server: Server, records: int) -> None:
    """Commit offsets by tools, of 100 groups and as many partitions, until so many records are written."""
    find_coordinator(server)
    with connected(server, 8) as clients:
        for turn in range(0, records // PARTITIONS, len(clients)):
            offsets = tuple(OffsetCommitRequestPartition(each, turn) for each in range(PARTITIONS))
            for number, client in enumerate(clients):
                request = OffsetCommitRequest(
                    group_id=f"filled-{(turn + number) % _GROUPS}",
                    topics=(OffsetCommitRequestTopic(TOPIC, partitions=offsets),),
                )
                client.sendall(frame_of(request, COMMIT_VERSION))
            for client in clients:
                check_commit(receive(client))


def until_loaded(server: Server) -> None:
    """Wait until committed offsets can be fetched."""
    give_up = time.monotonic() + _TIMEOUT_S
    with connected(server) as (client,):
        while time.monotonic() < give_up:
            request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup("filled-0"),))
            (answer,) = ask(client, request, _FETCH_VERSION).groups
            if answer.error_code == 0:
                return
            time.sleep(0.005)
    raise TimeoutError("the offsets are not loaded")


def load_ms(name: str, records: int, rounds: int) -> list[float]:
    """Return what a broker logs that the loading of so many committed offsets took, start by start."""
    times = []
    with tempfile.TemporaryDirectory() as directory:
        start = _kafka_in if name == KAFKA else _ours_in
        started = start(Path(directory), uvloop=name == UVLOOP)
        for turn in range(rounds + 1):
            with started() as (server, read_log):
                if turn:
                    until_loaded(server)
                    times.append(_loaded(read_log))
                else:
                    fill(server, records)
    return times


Started = Callable[[], AbstractContextManager[tuple[Server, Callable[[], str]]]]
"""Starts a broker on one directory again and again; gives it, and what reads its log."""


def _ours_in(directory: Path, *, uvloop: bool) -> Started:
    @contextlib.contextmanager
    def start() -> Iterator[tuple[Server, Callable[[], str]]]:
        log = directory / "log"
        with (
            log.open("wb") as stderr,
            groupsdk(directory / "data", uvloop=uvloop, stderr=stderr) as server,
        ):
            yield server, log.read_text

    return start


def _kafka_in(directory: Path, *, uvloop: bool) -> Started:
    del uvloop
    local = LocalKafka(data_dir=directory, log=True)

    @contextlib.contextmanager
    def start() -> Iterator[tuple[Server, Callable[[], str]]]:
        with running_kafka(local, data_exists=(directory / "started").exists()) as server:
            (directory / "started").touch()
            yield server, local.nodes[0].log_file.read_text

    return start


def _loaded(read_log: Callable[[], str]) -> float:
    """Read the last of the loading times in a log, which may be written a little later than it answers."""
    give_up = time.monotonic() + 5
    while time.monotonic() < give_up:
        found = _LOADED.findall(read_log())
        if found:
            return float(max(found[-1]))
        time.sleep(0.1)
    raise RuntimeError(f"the log does not tell of loading: {read_log()[-500:]}")


def _add_step(result: Result, step: str, taken: dict[str, list[tuple[float, float]]]) -> None:
    """Write the row of one step, and where groupsdk is behind in it."""
    cells = []
    for runs in taken.values():
        rates, cpu = zip(*runs, strict=True)
        cells.append(f"{spread(rates, 0)}/s; CPU {spread(cpu)} us")
    result.rows.append([step, *cells])
    ours, other = (max(each[0] for each in taken[name]) for name in (OURS, KAFKA))
    if ours < other:
        result.behind.append(f"{step}: {ours:,.0f}/s at best, Kafka {other:,.0f}/s")
    ours, other = (statistics.median(each[1] for each in taken[name]) for name in (OURS, KAFKA))
    if ours > other:
        result.behind.append(f"{step}: {ours:.2f} us of CPU, Kafka {other:.2f} us")


def run(arguments: list[str], *, quick: bool) -> Result:
    records = 200_000 if quick else 1_000_000
    options = options_of("broker_data", arguments, rounds=3, records=records, offsets=records)
    before = load()
    count = options.records
    steps: dict[str, Callable[..., tuple[float, float]]] = {
        "Produce: records of 100 bytes": produce,
        "Produce: records of 50 to 150 bytes": partial(produce, values=_MIXED),
        "Produce: records of 100 bytes with zstd": partial(produce, compression="zstd"),
        "Fetch: records of 100 bytes": fetch,
    }
    with servers() as found:
        names = [server.name for server in found]
        each_step = {step: partial(do, count=count) for step, do in steps.items()}
        in_turn(1, each_step, found)  # to warm up
        taken = in_turn(options.rounds, each_step, found)
    loaded = {
        name: load_ms(name, options.offsets, options.rounds)
        for name in (OURS, UVLOOP, KAFKA)
        if name in names
    }
    result = Result(
        "broker_data",
        "Brokers: records through confluent-kafka, and the loading of committed offsets",
        ["", *names],
        raw={"records": taken, "loading": loaded},
    )
    for step, by_name in taken.items():
        _add_step(result, step, by_name)
    cells = [f"{spread(loaded[name], 0)} ms" if name in loaded else "-" for name in names]
    result.rows.append([f"loading {options.offsets:,} records of `__consumer_offsets`", *cells])
    ours, other = min(loaded[OURS]), min(loaded[KAFKA])
    if ours > other:
        result.behind.append(f"loading: {ours:,.0f} ms at best, Kafka {other:,.0f} ms")
    result.notes = [
        (
            f"Median (least to most) of {options.rounds} rounds of {count:,} records in 4 partitions, CPU of the"
            f" broker for one record; the load average was {before} before. What a client"
            " does is in the rates: both ends share the cores. Loading: what the brokers log"
            " that it took at a start, after commits of 100 groups and 100 partitions; kfake keeps nothing."
        )
    ]
    return result
