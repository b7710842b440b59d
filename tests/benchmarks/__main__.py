"""Run the benchmarks: `python -m tests.benchmarks [--full] [--only NAME] [--docs] [-- OPTIONS]`.

Each is a module of this folder with `run(options, *, quick)`, which starts what it needs and returns a table.
"""

import argparse
import importlib
import re
import sys
from pathlib import Path
from typing import Final

from tests.benchmarks.report import Result, environment


PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"
TABLES: Final = (
    # on a Kafka
    *("group_formation", "heartbeat_jitter", "idle_cost", "import_cost", "shard_handover"),
    # brokers beside each other: ours, Kafka, and kfake where Go is at hand
    *("broker_start", "broker_requests", "broker_groups", "broker_consumer_groups", "broker_data"),
    *("broker_holds", "broker_assignor_holds", "broker_background"),
    # without a broker; a JDK and Go for some of the peers
    *("assignors", "sticky_assignor", "weighted_assignor", "shards", "shard_moves"),
    # logs; Spark and a JDK for the first and the last
    *("history_decoding", "history_replay", "history_alerts", "history_merge"),
)
ALONE: Final = ("consumer_protocol", "history_cluster", "history_scale")
"""Not for docs/benchmarks.md as they are; run where they are named."""
NAMES: Final = (*TABLES, *ALONE)


def run(name: str, options: list[str], *, quick: bool) -> Result:
    """Run one benchmark."""
    result: Result = importlib.import_module(f"tests.benchmarks.{name}").run(options, quick=quick)
    return result.finish()


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
    results = {name: run(name, parsed.options, quick=not parsed.full) for name in names}
    print("\n" + "\n".join([environment(), "", *(each.markdown() for each in results.values())]))
    if parsed.docs:
        tables = [result.markdown() for name, result in results.items() if name in TABLES]
        write_page(environment(), tables)


if __name__ == "__main__":
    main(sys.argv[1:])
