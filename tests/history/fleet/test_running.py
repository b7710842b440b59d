"""The runs of clusters: one that fails or hangs leaves the others alone."""

import os
from pathlib import Path

from groupsdk.history.fleet.clusters import ClusterSource
from groupsdk.history.fleet.running import directory_of, run_clusters
from tests.history.fleet.fleets import write_cluster


def test_a_cluster_that_fails_or_hangs_stops_no_other(tmp_path: Path) -> None:
    good = ClusterSource("good", {"segments": str(write_cluster(tmp_path / "log", stopped=False))})
    gone = ClusterSource("gone", {"segments": str(tmp_path / "nowhere")})
    # its topic file never ends
    os.mkfifo(tmp_path / "topics")
    hangs = ClusterSource("hangs", {**good.options, "topics": str(tmp_path / "topics")})
    out = str(tmp_path / "out")
    said: list[str] = []
    local = ["--engine=local", "--no-report"]
    runs = run_clusters([gone, good], out, arguments=local, say=said.append)
    (late,) = run_clusters([hangs], out, arguments=local, timeout_s=1)
    assert [(each.cluster_id, each.state) for each in (*runs, late)] == [
        ("gone", "failed"),
        ("good", "done"),
        ("hangs", "failed"),
    ]
    assert "nowhere does not exist" in runs[0].error
    assert late.error == "not done after 1 s"
    assert (directory_of(out, "good") / "generations").is_dir()
    assert {line.split()[1] for line in said} == {"gone:", "good:"}
