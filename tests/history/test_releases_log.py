"""Logs of several releases of Kafka, each with every compression, as their brokers wrote them: all that is in them is read."""

from pathlib import Path
from typing import Any

import pytest

from groupsdk.history.local import run
from groupsdk.history.pipeline import Options
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.wire.records.batch import batches
from tests.history.expected_tables import rows_of, unpack
from tests.history.recording.releases import CODECS, GROUPS, PAYING
from tests.history.sample import DATA


def check(segments: Path, out: Path) -> None:
    """Hold the tables of a log that `recording.releases` has made to what was done."""
    run(segment_tasks(str(segments)), str(out), Options(assignors=("range",)))
    rows: dict[str, list[dict[str, Any]]] = {
        name: [dict(row) for row in rows_of(out / name)]
        for name in ("generations", "offset_commits", "rejects", "quality")
    }
    assert rows["rejects"] == []
    (quality,) = rows["quality"]
    counts = ("offset_gaps", "bad_batches", "undecodable", "missing_generations")
    assert [quality[name] for name in counts] == [0, 0, 0, 0]
    found = {
        group: [
            row["primary_cause"]
            for row in sorted(rows["generations"], key=lambda row: row["seq"])
            if row["group_id"] == group and row["primary_cause"] != "created"
        ]
        for group in GROUPS
    }
    assert found == dict.fromkeys(GROUPS, ["join", "leave"] * len(CODECS))
    assert {row["group_id"]: row["protocol"] for row in rows["generations"]} == GROUPS
    commits = sorted(rows["offset_commits"], key=lambda row: row["src_offset"])
    for group in (*GROUPS, PAYING):
        offsets = [row["committed_offset"] for row in commits if row["group_id"] == group]
        assert offsets == [*range(len(CODECS))], group


@pytest.mark.parametrize("version", sorted(each.name for each in (DATA / "releases").iterdir()))
def test_a_log_of_a_release_is_read_whole(version: str, tmp_path: Path) -> None:
    segments = unpack([f"releases/{version}"], tmp_path)
    used = {
        header.compression
        for file in segments.glob("*/*.log")
        for header, _ in batches(file.read_bytes())
    }
    assert len(used) == len(CODECS)
    check(segments, tmp_path / "out")
