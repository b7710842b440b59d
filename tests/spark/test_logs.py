"""Every log of a real broker that there is, through the whole pipeline."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as f

from groupsdk.history.tables.schemas import TABLES
from tests.spark.logs import LOGS, explain


def repeated(tables: dict[str, Any]) -> dict[str, Any]:
    """Find the keys that two rows of a table have in common: one of each table."""
    found = {}
    for name, frame in tables.items():
        keys = TABLES[name].keys
        if keys:
            row = frame.groupBy(*keys).count().filter(f.col("count") > 1).first()
            if row is not None:
                found[name] = row
    return found


@pytest.mark.parametrize("names", LOGS, ids=" ".join)
def test_the_keys_of_every_table_are_unique(
    names: Sequence[str], spark: Any, tmp_path: Path
) -> None:
    tables = explain(spark, names, tmp_path)
    assert tables.keys() == TABLES.keys() - {"raw_records"}
    assert repeated(tables) == {}
    assert tables["generations"].count() > 30
