"""Sum up a fleet: which groups of which cluster stand still, and who is to be told; as tables and as a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from groupsdk.admin.descriptions import ranges
from groupsdk.history.fleet.clusters import Fleet
from groupsdk.history.fleet.running import ClusterRun, directory_of, report_of
from groupsdk.history.report.page import environment
from groupsdk.history.report.tables import ParquetTables
from groupsdk.history.slo import Budget, budgets_of
from groupsdk.history.standing import STANDING_MS, Standing, log_end_ms, standing
from groupsdk.history.tables.delta_tables import DeltaTables, clusters_of, overwrite
from groupsdk.history.tables.publishing import DELTA, PARQUET
from groupsdk.history.tables.stage_tables import TableSource
from groupsdk.printable import printable_lines
from groupsdk.verdict.rules.rule import length
from groupsdk.version import __version__


DIRECTORY: Final = "fleet"
PAGE: Final = "fleet.html"
CLUSTERS: Final = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("state", pa.string()),
        ("error", pa.string()),
        ("seconds", pa.float64()),
        ("log_end", pa.timestamp("us", tz="UTC")),
        ("groups", pa.int64()),
        ("rebalances", pa.int64()),
        ("standing_groups", pa.int64()),
        ("standing_partitions", pa.int64()),
    ]
)
STANDING: Final = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("group_id", pa.string()),
        ("team", pa.string()),
        ("on_call", pa.string()),
        ("topic", pa.string()),
        ("partitions", pa.list_(pa.int32())),
        ("since", pa.timestamp("us", tz="UTC")),
        ("standing_ms", pa.int64()),
        ("evidence", pa.string()),
        ("lag", pa.int64()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("last_cause", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class ClusterLine:
    """One cluster of the summary; `log_end_ms` is None if there are no tables of it, or its log is empty."""

    run: ClusterRun
    log_end_ms: int | None
    groups: int
    rebalances: int
    standing: Sequence[Standing]
    report: str
    """The path of its report, relative to the page; "" if there is none."""
    budgets: Sequence[Budget] = ()
    """How its groups meet their objectives, if its run had some."""

    @property
    def partitions(self) -> int:
        """How many partitions stand still, each counted once for each group."""
        return sum(len(each.partitions) for each in self.standing)


@dataclass(frozen=True, slots=True)
class StandingLine:
    """One row of what stands still, with who is to be told."""

    cluster_id: str
    what: Standing
    standing_ms: int
    team: str
    on_call: str


@dataclass(frozen=True, slots=True)
class FleetSummary:
    clusters: Sequence[ClusterLine]
    standing: Sequence[StandingLine]
    """What has stood for the longest, in partition-seconds, comes first."""

    @property
    def partitions(self) -> int:
        return sum(len(each.what.partitions) for each in self.standing)

    @property
    def groups(self) -> int:
        return len({(each.cluster_id, each.what.group_id) for each in self.standing})


def summarise(
    fleet: Fleet,
    runs: Sequence[ClusterRun],
    out: str,
    *,
    least_ms: int = STANDING_MS,
    table_format: str = PARQUET,
) -> FleetSummary:
    """Read the tables of each cluster below `out` and find what stands still at the end of its log.

    A cluster whose run failed is summed up from the tables of an earlier run, if there are any.
    """
    clusters = [_cluster(each, out, least_ms, table_format) for each in runs]
    lines = []
    for cluster in clusters:
        name = cluster.run.cluster_id
        for what in cluster.standing:
            owner = fleet.owner_of(name, what.group_id)
            assert cluster.log_end_ms is not None
            lines.append(
                StandingLine(
                    name,
                    what,
                    cluster.log_end_ms - what.since_ms,
                    "" if owner is None else owner.team,
                    "" if owner is None else owner.on_call,
                )
            )
    lines.sort(key=lambda each: (-each.standing_ms * len(each.what.partitions), each.cluster_id))
    return FleetSummary(clusters, lines)


def _tables(out: str, cluster_id: str, table_format: str) -> TableSource | None:
    """Return the tables of a cluster; None if there are none of it."""
    if table_format == DELTA:
        return DeltaTables(out, cluster_id) if cluster_id in clusters_of(out) else None
    directory = directory_of(out, cluster_id)
    return ParquetTables(str(directory)) if (directory / "generations").is_dir() else None


def _cluster(run: ClusterRun, out: str, least_ms: int, table_format: str) -> ClusterLine:
    tables = _tables(out, run.cluster_id, table_format)
    if tables is None:
        return ClusterLine(run, None, 0, 0, (), "")
    end_ms = log_end_ms(tables)
    groups = tables.read("groups", ("generation", "rebalances"))
    found = () if end_ms is None else tuple(standing(tables, end_ms, least_ms=least_ms))
    report = report_of(out, run.cluster_id, table_format)
    return ClusterLine(
        run,
        end_ms,
        pc.count(groups.column("generation")).as_py(),
        pc.sum(groups.column("rebalances")).as_py() or 0,
        found,
        str(report.relative_to(out)) if report.is_file() else "",
        budgets_of(tables.read("slo", Budget._fields)),
    )


def write_tables(summary: FleetSummary, out: str, *, table_format: str = PARQUET) -> None:
    """Write the tables `clusters` and `standing` below `out`/fleet, replacing those of the run before."""
    folder = Path(out) / DIRECTORY
    for name, schema, rows in (
        ("clusters", CLUSTERS, map(_cluster_row, summary.clusters)),
        ("standing", STANDING, map(_standing_row, summary.standing)),
    ):
        table = pa.Table.from_pylist(list(rows), schema=schema)
        if table_format == DELTA:
            overwrite(str(folder), name, table)
            continue
        folder.mkdir(parents=True, exist_ok=True)
        sink = pa.BufferOutputStream()
        parquet.write_table(table, sink)
        replace_file(folder / f"{name}.parquet", sink.getvalue().to_pybytes())


def write_page(summary: FleetSummary, out: str) -> Path:
    """Write the page of the fleet, and return its path."""
    page = Path(out) / PAGE
    templates = environment().overlay()
    templates.filters = {
        **templates.filters,
        "places": lambda what: ranges({what.topic: what.partitions}),
        "lasting": length,
        "moment": _moment,
        "is_link": lambda text: text.startswith(("https://", "http://")),
    }
    text = templates.get_template("fleet.html.jinja").render(summary=summary, version=__version__)
    replace_file(page, printable_lines(text).encode())
    return page


def _moment(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def replace_file(path: Path, data: bytes) -> None:
    """Write a file at once: somebody may be reading it."""
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(data)
    new.replace(path)


def _cluster_row(line: ClusterLine) -> dict[str, Any]:
    return {
        "cluster_id": line.run.cluster_id,
        "state": line.run.state,
        "error": line.run.error or None,
        "seconds": line.run.seconds,
        "log_end": None if line.log_end_ms is None else 1_000 * line.log_end_ms,
        "groups": line.groups,
        "rebalances": line.rebalances,
        "standing_groups": len({each.group_id for each in line.standing}),
        "standing_partitions": line.partitions,
    }


def _standing_row(line: StandingLine) -> dict[str, Any]:
    what = line.what
    return {
        "cluster_id": line.cluster_id,
        "group_id": what.group_id,
        "team": line.team or None,
        "on_call": line.on_call or None,
        "topic": what.topic,
        "partitions": what.partitions,
        "since": 1_000 * what.since_ms,
        "standing_ms": line.standing_ms,
        "evidence": what.evidence,
        "lag": what.lag,
        "client_id": what.client_id or None,
        "client_host": what.client_host or None,
        "last_cause": what.last_cause or None,
    }
