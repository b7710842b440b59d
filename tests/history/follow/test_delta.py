"""Delta tables that are kept up to date, held against one run over the same log."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pytest_mock import MockerFixture

from groupsdk.errors import ConfigError
from groupsdk.history import local
from groupsdk.history.follow.updater import Updater
from groupsdk.history.tables.delta_ledger import DeltaLedger
from groupsdk.history.tables.delta_tables import DeltaTables, opened
from groupsdk.history.tables.ledger import OPEN
from tests.history.expected_tables import LOGS
from tests.history.follow.crashing import CrashError
from tests.history.follow.log_parts import RawTask, follow, pieces, raw_of
from tests.history.lakes import (
    CLUSTER,
    DELTA,
    PLAIN,
    ROOT,
    Rows,
    delta_rows,
    is_killed,
    live_files,
    parquet_rows,
    versions,
)
from tests.support.cases import each_case


def one_run(raw: Any, out: Path) -> Rows:
    local.run([RawTask(raw)], str(out), PLAIN)
    return parquet_rows(out)


@each_case("name", ["sample", "transactions", "protocols"])
def test_each_update_brings_delta_tables_to_the_rows_of_one_run(name: str, tmp_path: Path) -> None:
    root = tmp_path / name
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


@pytest.mark.parametrize("before", [1, 2])
def test_following_starts_over_when_a_run_has_replaced_the_rows_since(
    before: int, tmp_path: Path
) -> None:
    raw = raw_of(LOGS["transactions"](tmp_path / "log"))
    parts = pieces(raw, 3, 5)
    lake = tmp_path / "lake"
    first = Updater(str(lake), "log", DELTA, buckets=2)
    follow(first, parts[:before])
    other = raw_of(LOGS["bad input"](tmp_path / "other"))
    local.run([RawTask(other)], str(lake), DELTA)
    with pytest.raises(ConfigError, match="a run has replaced rows of the cluster"):
        follow(first, parts)
    again = Updater(str(lake), "log", DELTA, buckets=2)
    assert again.state.update == 0
    follow(again, parts)
    assert delta_rows(lake) == one_run(raw, tmp_path / "plain")


def test_of_two_that_follow_a_cluster_each_update_counts_once(tmp_path: Path) -> None:
    raw = raw_of(LOGS["transactions"](tmp_path / "log"))
    parts = pieces(raw, 4, 2)
    lake = str(tmp_path / "lake")
    both = [Updater(lake, "log", DELTA, buckets=2) for _ in range(2)]
    refused = 0
    for number in range(len(parts)):
        first, second = both[number % 2], both[1 - number % 2]
        follow(first, parts[: number + 1])
        with pytest.raises(
            ConfigError, match=f"another process writes .*{CLUSTER}.*: end it first"
        ):
            follow(second, parts[: number + 1])
        refused += 1
        # as a process that is started again
        both[1 - number % 2] = Updater(lake, "log", DELTA)
    assert refused == len(parts)
    assert delta_rows(tmp_path / "lake") == one_run(raw, tmp_path / "plain")


def test_of_two_updates_at_a_time_the_later_commit_leaves_nothing(
    tmp_path: Path, mocker: MockerFixture
) -> None:
    raw = raw_of(LOGS["transactions"](tmp_path / "log"))
    parts = pieces(raw, 2, 2)
    lake = tmp_path / "lake"
    follow(Updater(str(lake), "log", DELTA, buckets=2), parts[:1])
    late = Updater(str(lake), "log", DELTA)
    commit = DeltaLedger._write_row

    def overtaken(*given: Any) -> None:
        mocker.stop(patched)
        # between the last check and the commit
        follow(Updater(str(lake), "log", DELTA), parts)
        commit(*given)

    patched = mocker.patch.object(DeltaLedger, "_write_row", overtaken)
    with pytest.raises(ConfigError, match="another process"):
        follow(late, parts)
    assert delta_rows(lake) == one_run(raw, tmp_path / "plain")
    assert opened(str(lake), "followed").to_pandas()["update"].tolist() == [2]


_FOLLOW = """
import sys
from tests.history.follow.log_parts import follow, pieces, raw_of
from groupsdk.history.follow.updater import Updater
from tests.history.lakes import DELTA
from pathlib import Path
follow(Updater(sys.argv[2], "log", DELTA, buckets=2), pieces(raw_of(Path(sys.argv[1])), 4, int(sys.argv[3])))
"""


def _kill_followers(tmp_path: Path, kills: int, seed: int) -> None:
    """Kill what follows when so many files are there: of an update that does not count yet, or of one that is being delivered."""
    chance = Random(seed)
    log, lake = LOGS["transactions"](tmp_path / "log"), tmp_path / "lake"
    command = [sys.executable, "-c", _FOLLOW, str(log), str(lake), str(seed)]
    assert sum(is_killed(command, lake, chance.randrange(1, 250)) for _ in range(kills))
    subprocess.run(command, cwd=ROOT, check=True)
    assert delta_rows(lake) == one_run(raw_of(log), tmp_path / "plain")


def test_followers_that_are_killed_leave_the_tables_of_one_run(tmp_path: Path) -> None:
    _kill_followers(tmp_path, 4, 1)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_followers_that_are_killed_leave_the_tables_of_one_run(
    seed: int, tmp_path: Path
) -> None:
    _kill_followers(tmp_path, 12, seed)


def test_rows_that_do_not_change_any_more_are_stored_in_the_lakehouse_only(tmp_path: Path) -> None:
    raw = raw_of(LOGS["protocols"](tmp_path / "log"))
    updater = Updater(str(tmp_path / "lake"), "log", DELTA, buckets=2)
    follow(updater, [*pieces(raw, 3, 1), raw.slice(0, 0)])
    live = updater.state.files
    assert {each.kind for each in live if each.table in ("generations", "replay", "moves")} == {
        OPEN
    }
    assert not updater.state.of("offset_commits")
    files = {
        str(each.relative_to(updater.out))
        for each in Path(updater.out).rglob("*")
        if each.is_file()
    }
    assert files == {each.path for each in live}


def test_clusters_are_followed_beside_each_other(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    found = {}
    for name in ("transactions", "bad input"):
        raw = raw_of(LOGS[name](tmp_path / name))
        options = replace(DELTA, cluster_id=name)
        updater = Updater(lake, "log", options, buckets=2)
        follow(updater, pieces(raw, 2, 3))
        found[name] = one_run(raw, tmp_path / f"plain {name}")
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
