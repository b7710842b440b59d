"""Delta tables that are kept up to date, held against one run over the same log."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from groupsdk.errors import ConfigError
from groupsdk.history import local
from groupsdk.history.follow.updater import Updater
from groupsdk.history.tables.delta_tables import DeltaTables
from tests.history.expected_tables import LOGS
from tests.history.follow.crashing import CrashError
from tests.history.follow.log_parts import RawTask, follow, pieces, raw_of
from tests.history.lakes import DELTA, PLAIN, Rows, delta_rows, live_files, parquet_rows, versions
from tests.support.cases import each_case


def one_run(raw: Any, out: Path) -> Rows:
    local.run([RawTask(raw)], str(out), PLAIN)
    return parquet_rows(out)


@each_case("name", ["sample", "transactions", "protocols"])
def test_each_update_brings_delta_tables_to_the_rows_of_one_run(name: str, tmp_path: Path) -> None:
    root = tmp_path / name
    root.mkdir()
    raw = raw_of(LOGS[name](root))
    follow(Updater(str(root / "lake"), "log", DELTA, buckets=2), pieces(raw, 4, 1))
    assert delta_rows(root / "lake") == one_run(raw, root / "plain")
    before = versions(root / "lake")
    Updater(str(root / "lake"), "log", DELTA, buckets=2)
    # a run over the same log changes nothing either
    local.run([RawTask(raw)], str(root / "lake"), DELTA)
    assert versions(root / "lake") == before


@pytest.mark.parametrize("seed", range(3))
def test_an_update_that_ends_between_two_tables_is_delivered_by_the_next_process(
    seed: int, tmp_path: Path, mocker: MockerFixture
) -> None:
    raw = raw_of(LOGS["transactions"](tmp_path / "log"))
    parts = pieces(raw, 4, seed)
    lake = tmp_path / "lake"
    crashes = 0
    left = [seed + 1]
    write = DeltaTables._write

    def crashing(*given: Any) -> None:
        left[0] -= 1
        if not left[0]:
            raise CrashError("killed")
        write(*given)

    mocker.patch.object(DeltaTables, "_write", crashing)
    for number in range(len(parts)):
        while True:
            updater = None
            try:
                updater = Updater(str(lake), "log", DELTA, buckets=2)
                follow(updater, parts[: number + 1])
            except CrashError:
                crashes += 1
                # the next one gets further
                left[0] = crashes + seed + 1
            else:
                break
            finally:
                if updater is not None:
                    updater.close()
    assert crashes
    assert delta_rows(lake) == one_run(raw, tmp_path / "plain")


def test_tables_that_a_run_has_changed_since_are_mended_by_the_next_update(tmp_path: Path) -> None:
    raw = raw_of(LOGS["transactions"](tmp_path / "log"))
    parts = pieces(raw, 3, 5)
    lake = tmp_path / "lake"
    follow(Updater(str(lake), "log", DELTA, buckets=2), parts[:1])
    other = raw_of(LOGS["bad input"](tmp_path / "other"))
    local.run([RawTask(other)], str(lake), DELTA)
    follow(Updater(str(lake), "log", DELTA, buckets=2), parts)
    assert delta_rows(lake) == one_run(raw, tmp_path / "plain")


def test_clusters_are_followed_beside_each_other(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    found = {}
    for name in ("transactions", "bad input"):
        raw = raw_of(LOGS[name](tmp_path / name))
        options = replace(DELTA, cluster_id=name)
        updater = Updater(lake, "log", options, buckets=2)
        follow(updater, pieces(raw, 2, 3))
        found[name] = one_run(raw, tmp_path / f"plain {name}")
        with pytest.raises(ConfigError, match="writes into"):
            Updater(lake, "log", options)
        updater.close()
    for name, rows in found.items():
        assert delta_rows(tmp_path / "lake", name) == rows
    with pytest.raises(ConfigError, match="has tables of the format delta"):
        Updater(lake, "log", PLAIN)
    with pytest.raises(ConfigError, match="name it with --cluster"):
        Updater(lake, "log", replace(DELTA, cluster_id="unknown"))


def test_an_update_rewrites_no_more_files_than_have_rows_of_its_days(tmp_path: Path) -> None:
    raw = raw_of(LOGS["simulated"](tmp_path / "log"))
    parts = pieces(raw, 4, 1)
    lake = tmp_path / "lake"
    follow(Updater(str(lake), "log", DELTA, buckets=2), parts[:3])
    before = live_files(lake, "offset_commits")
    follow(Updater(str(lake), "log", DELTA, buckets=2), parts)
    # committed offsets do not change: what comes is appended
    assert before.keys() < live_files(lake, "offset_commits").keys()
