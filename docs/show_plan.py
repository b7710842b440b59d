#!/usr/bin/env python
"""Write the plan of docs/spark.md: what Spark's `explain` says of the query that writes the tables of a log."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

from docs.regions import filled, write
from examples.history_log import LogWriter, Seat, commit, generation


if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEFAULTS: Final = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
"""Settings of Spark as they are, unless a session says otherwise."""
_IDS: Final = re.compile(r"#\d+L?|, \[plan_id=\d+\]|_\d+(?=\()")


def plan(spark: "SparkSession") -> str:
    """Return the plan, without the numbers that each session gives to columns and steps."""
    from groupsdk.history.job import Inputs, run
    from groupsdk.history.sources.spark_segments import read_segments
    from groupsdk.history.sources.spark_tables import ArrowFiles

    printed = StringIO()
    save = ArrowFiles.save

    def explained(files: ArrowFiles, frame: "DataFrame", part: str) -> None:
        if part == "part":
            with redirect_stdout(printed):
                frame.explain()
        save(files, frame, part)

    before = {name: str(spark.conf.get(name)) for name in DEFAULTS}
    with TemporaryDirectory() as folder, patch.object(ArrowFiles, "save", explained):
        for partition in range(2):
            with LogWriter(Path(folder) / "log", partition) as log:
                seats = {"m": Seat("c", {"t": [0]})}
                log.append(1_000, generation(f"g{partition}", 1, seats))
                log.append(2_000, commit(f"g{partition}", "t", 0, 7, 2_000))
        try:
            for name, value in DEFAULTS.items():
                spark.conf.set(name, value)
            run(spark, Inputs(read_segments(spark, f"{folder}/log")), f"{folder}/out")
        finally:
            for name, value in before.items():
                spark.conf.set(name, value)
    return _IDS.sub("", printed.getvalue()).strip()


def pages(spark: "SparkSession") -> dict[Path, str]:
    """Return the page with the plan."""
    return filled("spark.md", {"plan": f"```text\n{plan(spark)}\n```"})


if __name__ == "__main__":
    from groupsdk.history.session import build_session

    write(lambda: pages(build_session(master="local[2]")))
