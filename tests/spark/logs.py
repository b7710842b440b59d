"""The logs of real brokers that the tests have, unpacked, and every table of each of them."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from groupsdk.history.job import Inputs, run
from groupsdk.history.sources.broker_log import read_broker_log, read_ends
from groupsdk.history.sources.segments import land_segments
from tests.history.sample import DATA, partition_of
from tests.spark.reading import read_segments


LOGS: Final = (("protocols",), ("recorded", "scenes"))
"""By their directories, those together that share no group; the sample has fixtures of its own."""
_APART: Final = 10
"""By how much the partitions of each further log are moved, to lie beside those before."""
COORDINATOR_LOG: Final = "coordinator-log.txt"


def unpack(names: Sequence[str], root: Path) -> Path:
    """Unpack logs into one below a directory; returns where its segments are."""
    said = b""
    for place, name in enumerate(names):
        for packed in sorted((DATA / name).glob("*/*.log.gz")):
            number = partition_of(packed.parent) + _APART * place
            file = root / "segments" / f"__consumer_offsets-{number}" / packed.stem
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(gzip.decompress(packed.read_bytes()))
        log = DATA / name / f"{COORDINATOR_LOG}.gz"
        if log.exists():
            said += gzip.decompress(log.read_bytes())
    (root / COORDINATOR_LOG).write_bytes(said)
    return root / "segments"


def explain(spark: SparkSession, names: Sequence[str], root: Path) -> dict[str, Any]:
    """Make every table of some logs."""
    segments = unpack(names, root)
    log = str(root / COORDINATOR_LOG)
    inputs = Inputs(
        read_segments(spark, segments, "commits"),
        read_segments(spark, segments, "rest"),
        reasons=read_broker_log(spark, log),
        ends=read_ends(spark, log),
        land=land_segments(spark, str(segments)),
    )
    return dict(run(spark, inputs, str(root / "tables")))
