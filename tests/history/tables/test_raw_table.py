"""Raw records of many clusters in one Delta table: each once, whoever is killed, and read back as an archive."""

import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.compute as pc
import pytest

from groupsdk.errors import ConfigError
from groupsdk.history.local import run
from groupsdk.history.pipeline import Options
from groupsdk.history.sources.archive_files import archive_tasks
from groupsdk.history.tables.delta_tables import clusters_of, opened
from groupsdk.history.tables.raw_table import RawTable, only_cluster
from groupsdk.history.tables.schemas import RAW
from tests.history.expected_tables import LOGS, digests
from tests.history.follow.log_parts import RawTask, pieces, raw_of
from tests.history.lakes import ROOT, is_killed


FEW = Options(assignors=("sticky",))


def append(table: RawTable, rows: Any) -> None:
    """Append rows with the positions after them, as an archive of a topic does; those that are there are passed over."""
    last = rows.group_by("src_partition").aggregate([("src_offset", "max")]).to_pylist()
    after = {each["src_partition"]: each["src_offset_max"] + 1 for each in last}
    known = table.positions(after)
    moved = {each: offset for each, offset in after.items() if known.get(each, 0) < offset}
    if moved:
        mine = [
            rows.filter(
                pc.and_(
                    pc.equal(rows["src_partition"], each),
                    pc.greater_equal(rows["src_offset"], known.get(each, 0)),
                )
            )
            for each in moved
        ]
        table.append((batch for each in mine for batch in each.to_batches()), known, moved)


def test_clusters_share_a_table_and_are_read_back_apart(tmp_path: Path) -> None:
    lake = str(tmp_path / "a lake")
    for name, cluster_id in (("transactions", "old 'datacentre' 5%"), ("sample", "prod-eu")):
        raw = raw_of(LOGS[name](tmp_path / name))
        for rows in pieces(raw, 3, 1):
            append(RawTable(lake, cluster_id), rows)
            # again: nothing is there twice
            append(RawTable(lake, cluster_id), rows)
        run([RawTask(raw)], str(tmp_path / f"once {name}"), FEW)
        run(archive_tasks(lake, cluster_id), str(tmp_path / f"read {name}"), FEW)
        assert digests(tmp_path / f"read {name}") == digests(tmp_path / f"once {name}")
    assert clusters_of(lake, RAW) == ["old 'datacentre' 5%", "prod-eu"]
    assert only_cluster(lake, "prod-eu") == "prod-eu"
    with pytest.raises(ConfigError, match="with --cluster: old 'datacentre' 5%, prod-eu"):
        only_cluster(lake, None)
    partitions = opened(lake, "raw_records").partitions()
    assert {*partitions[0]} == {"cluster_id", "day"}


def test_of_two_that_archive_a_cluster_the_later_commit_is_refused(tmp_path: Path) -> None:
    raw = raw_of(LOGS["transactions"](tmp_path / "log"))
    first, second = (RawTable(str(tmp_path / "lake"), "prod-eu") for _ in range(2))
    after = {0: 5}
    for each in (first, second):
        assert each.positions(after) == {}
    first.append(raw.to_batches(), {}, after)
    with pytest.raises(ConfigError, match=r"another process writes .* 'prod-eu'"):
        second.append(raw.to_batches(), {}, after)
    assert second.positions(after) == after
    assert opened(str(tmp_path / "lake"), "raw_records").count() == raw.num_rows
    # rows without the position of one of these partitions
    with pytest.raises(ConfigError, match="written without positions"):
        second.positions({7: 1})


_APPEND = """
import sys
from pathlib import Path
from groupsdk.history.tables.raw_table import RawTable
from tests.history.follow.log_parts import pieces, raw_of
from tests.history.tables.test_raw_table import append
for rows in pieces(raw_of(Path(sys.argv[1])), 6, int(sys.argv[3])):
    append(RawTable(sys.argv[2], "prod-eu"), rows)
"""


def test_records_count_once_though_processes_are_killed(tmp_path: Path) -> None:
    chance = Random(3)
    log, lake = LOGS["transactions"](tmp_path / "log"), tmp_path / "lake"
    command = [sys.executable, "-c", _APPEND, str(log), str(lake), "3"]
    assert sum(is_killed(command, lake, chance.randrange(1, 8)) for _ in range(3))
    subprocess.run(command, cwd=ROOT, check=True)
    raw = raw_of(log)
    run([RawTask(raw)], str(tmp_path / "once"), FEW)
    run(archive_tasks(str(lake), "prod-eu"), str(tmp_path / "read"), FEW)
    assert opened(str(lake), "raw_records").count() == raw.num_rows
    assert digests(tmp_path / "read") == digests(tmp_path / "once")
