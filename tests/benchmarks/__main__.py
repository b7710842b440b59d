"""Run the benchmarks: `python -m tests.benchmarks [--full] [--only NAME] [--docs] [-- OPTIONS]`."""

import argparse
import re
import runpy
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from groupsdk.testing import LocalKafka
from groupsdk.testing.local_kafka import DEFAULT_VERSION
from tests.benchmarks import (
    assignors,
    broker_assignor_holds,
    broker_background,
    broker_consumer_groups,
    broker_data,
    broker_groups,
    broker_holds,
    broker_requests,
    broker_start,
    connect_assignor,
    connect_workers,
    consumer_rebalance,
    consumer_throughput,
    group_formation,
    heartbeat_jitter,
    history_alerts,
    history_decoding,
    history_growth,
    history_replay,
    idle_cost,
    import_cost,
    shard_handover,
    shards,
    sticky_assignor,
    weighted_assignor,
)
from tests.benchmarks.observer import create_topic
from tests.benchmarks.recording_proxy import RecordingProxy
from tests.benchmarks.report import Result, environment


PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"
BROKER: Final = (
    *("group_formation", "heartbeat_jitter", "idle_cost", "import_cost"),
    *("consumer_throughput", "consumer_rebalance", "shard_handover"),
)
"""What needs a Kafka."""
EMBEDDED: Final = (
    *("broker_start", "broker_requests", "broker_groups", "broker_consumer_groups", "broker_data"),
    *("broker_holds", "broker_assignor_holds", "broker_background", "connect_workers"),
)
"""What starts brokers itself: ours, Kafka, and kfake where Go is at hand."""
ASSIGNORS: Final = (
    *("assignors", "sticky_assignor", "weighted_assignor", "connect_assignor"),
    *("shards", "shard_moves"),
)
"""What needs none; a JDK and Go for some of the peers."""
HISTORY: Final = ("history_decoding", "history_replay", "history_alerts", "history_merge")
"""What reads logs; Spark and a JDK for the first and the last."""
TABLES: Final = (*BROKER, *EMBEDDED, *ASSIGNORS, *HISTORY)
PRINTED: Final = (
    *("wire_codec", "consumer_protocol"),
    *("history_growth", "history_cluster", "history_scale"),
)
"""Scripts that print their own table, which is not for docs/benchmarks.md; run where they are named."""
NAMES: Final = (*TABLES, *PRINTED)


def run(names: list[str], options: list[str], *, quick: bool) -> tuple[str, list[Result]]:
    """Run these benchmarks and return Kafka's version and the results, in the order of `TABLES`."""
    if set(names) & set(BROKER):
        version, results = _run_on_kafka(names, options, quick=quick)
    else:
        version, results = DEFAULT_VERSION, []
    others: dict[str, Callable[[], Result]] = {
        "broker_start": lambda: broker_start.run(options, quick=quick),
        "broker_requests": lambda: broker_requests.run(options, quick=quick),
        "broker_groups": lambda: broker_groups.run(options, quick=quick),
        "broker_consumer_groups": lambda: broker_consumer_groups.run(options, quick=quick),
        "broker_holds": lambda: broker_holds.run(options, quick=quick),
        "broker_assignor_holds": lambda: broker_assignor_holds.run(options, quick=quick),
        "broker_background": lambda: broker_background.run(options, quick=quick),
        "broker_data": lambda: broker_data.run(options, quick=quick),
        "connect_workers": lambda: connect_workers.run(rounds=3 if quick else 10),
        "assignors": lambda: assignors.run(quick=quick),
        "sticky_assignor": lambda: sticky_assignor.run(peers=not quick, check=not quick),
        "weighted_assignor": weighted_assignor.run,
        "connect_assignor": lambda: connect_assignor.run(rounds=5 if quick else 15),
        "shards": shards.run,
        "shard_moves": shards.run_moves,
        "history_decoding": lambda: history_decoding.run(options, quick=quick),
        "history_replay": lambda: history_replay.run(quick=quick),
        "history_alerts": lambda: history_alerts.run(quick=quick),
        "history_merge": history_growth.run_merges,
    }
    alone = [name for name in (*EMBEDDED, *ASSIGNORS, *HISTORY) if name in names]
    return version, [*results, *(others[name]() for name in alone)]


def _run_on_kafka(names: list[str], options: list[str], *, quick: bool) -> tuple[str, list[Result]]:
    with ExitStack() as stack:
        proxy = stack.enter_context(RecordingProxy())
        listeners = {"PLAINTEXT": "PLAINTEXT", heartbeat_jitter.LISTENER: "PLAINTEXT"}
        kafka = stack.enter_context(
            LocalKafka(
                listeners=listeners,
                advertised={heartbeat_jitter.LISTENER: [proxy.address]},
                properties={"group.initial.rebalance.delay.ms": "0"},
            )
        )
        proxy.connect_to(kafka.nodes[0].address(heartbeat_jitter.LISTENER))
        create_topic(kafka.bootstrap_servers, group_formation.TOPIC, group_formation.PARTITIONS)
        runs: dict[str, Callable[[], Result]] = {
            "group_formation": lambda: group_formation.run(kafka, options, quick=quick),
            "heartbeat_jitter": lambda: heartbeat_jitter.run(kafka, proxy, options, quick=quick),
            "idle_cost": lambda: idle_cost.run(kafka, options, quick=quick),
            "import_cost": lambda: import_cost.run(options, quick=quick),
            "consumer_throughput": lambda: consumer_throughput.run(kafka, options, quick=quick),
            "consumer_rebalance": lambda: consumer_rebalance.run(kafka, options, quick=quick),
            "shard_handover": lambda: shard_handover.run(kafka, options, quick=quick),
        }
        return kafka.version, [runs[name]() for name in BROKER if name in names]


def write_page(head: str, tables: list[str], path: Path = PAGE) -> None:
    """Put tables between the marks of the page, in place of those of the same title; new ones come first.

    Raises:
        ValueError: the page does not have the marks.
    """
    before = path.read_text(encoding="utf-8")
    found = re.search(f"{BEGIN}\n(.*?){END}", before, re.DOTALL)
    if not found:
        raise ValueError(f"{path} lacks {BEGIN} and {END}")
    old = {_title(each): each for each in re.split(r"^(?=\*\*)", found[1], flags=re.MULTILINE)[1:]}
    new = {_title(each): f"{each.rstrip()}\n\n" for each in tables}
    kept = {title: new.get(title, each) for title, each in old.items()}
    text = "".join([f"{head}\n\n", *((new | kept) if new.keys() - kept.keys() else kept).values()])
    path.write_text(
        f"{before[: found.start(1)]}{text.rstrip()}\n{before[found.end(1) :]}", encoding="utf-8"
    )


def _title(table: str) -> str:
    return table.partition("\n")[0]


def main(arguments: list[str]) -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--full", action="store_true", help="longer runs: more than an hour")
    parser.add_argument("--only", choices=NAMES, action="append", help="one benchmark; repeatable")
    parser.add_argument(
        "--docs",
        action="store_true",
        help="write the tables into docs/benchmarks.md; those that are not run now stay as they are",
    )
    parser.add_argument("options", nargs="*", help="after --: options of the one benchmark")
    parsed = parser.parse_args(arguments)
    names = parsed.only or list(TABLES)
    if parsed.options and len(names) != 1:
        parser.error("options after -- need --only with one benchmark")
    for name in PRINTED:
        if name in names:
            runpy.run_module(f"tests.benchmarks.{name}", run_name="__main__")
    if not set(names) & set(TABLES):
        return
    version, results = run(names, parsed.options, quick=not parsed.full)
    tables = [result.markdown() for result in results]
    print("\n" + "\n".join([environment(version), "", *tables]))
    if parsed.docs:
        write_page(environment(version), tables)


if __name__ == "__main__":
    main(sys.argv[1:])
