"""The logs of real brokers that the tests have, unpacked, and every table of each of them."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from groupsdk.history.job import Inputs, run
from groupsdk.history.sources.spark_broker_log import read_broker_log, read_ends
from groupsdk.history.sources.spark_segments import read_segments
from tests.history import expected_tables
from tests.history.sample import DATA


LOGS: Final = (("protocols",), ("recorded", "scenes"))
"""By their directories, those together that share no group; the sample has fixtures of its own."""
COORDINATOR_LOG: Final = "coordinator-log.txt"


def unpack(names: Sequence[str], root: Path) -> Path:
    """Unpack logs into one below a directory, with what the coordinators said; returns where the segments are."""
    said = b""
    for name in names:
        log = DATA / name / f"{COORDINATOR_LOG}.gz"
        if log.exists():
            said += gzip.decompress(log.read_bytes())
    (root / COORDINATOR_LOG).write_bytes(said)
    return expected_tables.unpack(names, root)


def explain(spark: SparkSession, names: Sequence[str], root: Path) -> dict[str, Any]:
    """Make every table of some logs."""
    segments = unpack(names, root)
    log = str(root / COORDINATOR_LOG)
    inputs = Inputs(
        read_segments(spark, str(segments)),
        reasons=read_broker_log(spark, log),
        ends=read_ends(spark, log),
    )
    return dict(run(spark, inputs, str(root / "tables")))
