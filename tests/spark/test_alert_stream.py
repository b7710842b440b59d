"""A log watched live, stopped and started again: nothing is told twice, and nothing is left out."""

from pathlib import Path
from typing import Any

from examples.history_log import LogWriter, Seat, generation
from groupsdk.history.alert_stream import COLUMNS, alert_stream
from groupsdk.history.schemas import TABLES
from tests.spark.reading import plain, read_raw_segments


def test_alerts_come_once_over_two_runs(spark: Any, tmp_path: Path) -> None:
    landing, out = tmp_path / "raw", str(tmp_path / "alerts")
    with LogWriter(tmp_path / "one", 0, batch_records=1) as log:
        for number in range(1, 4):
            log.append(1000 * number, generation("g", number, {"m": Seat("c", {"t": [0]})}))
        log.append(4000, generation("calm", 1, {"m": Seat("c", {"t": [0]})}))
    read_raw_segments(spark, tmp_path / "one").drop("day").write.mode("append").parquet(
        str(landing)
    )

    def run() -> Any:
        ddl = TABLES["raw_records"].ddl
        stream = spark.readStream.schema(ddl).parquet(str(landing))
        query = (
            alert_stream(stream, storm_generations=3, storm_window_ms=10_000, timers=False)
            .writeStream.format("parquet")
            .option("path", out)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return spark.read.schema(COLUMNS).parquet(out)

    columns = ("group_id", "src_offset", "kind", "cause", "rebalances")
    first = [
        ("calm", 3, "generation", "join", 1),
        ("g", 0, "generation", "join", 1),
        ("g", 1, "generation", "rejoin", 2),
        ("g", 2, "generation", "rejoin", 3),
        ("g", 2, "storm", "rejoin", 3),
    ]
    assert plain(run(), *columns) == first
    with LogWriter(tmp_path / "two", 0, batch_records=1) as log:
        log.offset = 4
        log.append(60_000, generation("g", 4, {"n": Seat("d", {"t": [0]})}))
    read_raw_segments(spark, tmp_path / "two").drop("day").write.mode("append").parquet(
        str(landing)
    )
    assert plain(run(), *columns) == sorted(
        [
            *first,
            ("g", 4, "generation", "join", 1),
            ("g", 4, "storm_over", "join", 1),
        ],
        key=str,
    )
