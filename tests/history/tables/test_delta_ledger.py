"""The state of each cluster that is followed, in the Delta table `followed`."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import fs

from groupsdk.errors import ConfigError
from groupsdk.history.tables.delta_ledger import STRAY_MS, DeltaLedger
from groupsdk.history.tables.delta_tables import FOLLOWED_TABLE, opened
from groupsdk.history.tables.ledger import Change, LiveFile, State


NEW = State("log", "code", "[]", 4, "prod-eu")


def ledger(root: Path, cluster_id: str = "prod-eu") -> DeltaLedger:
    """Return the ledger of a cluster, as a process that starts does."""
    return DeltaLedger(fs.LocalFileSystem(), str(root / cluster_id), str(root), cluster_id)


def write(root: Path, change: Change, name: str) -> tuple[str, LiveFile]:
    """Write a file as a task does."""
    (root / "prod-eu" / change.folder / name).write_text(name, encoding="utf-8")
    return name, LiveFile("lag", f"lag/{name}")


def test_an_update_counts_with_its_position_and_its_files_stay_where_they_are(
    tmp_path: Path,
) -> None:
    book = ledger(tmp_path)
    assert book.open() is None
    state = book.create(NEW)
    change = book.begin()
    change.merge([write(tmp_path, change, "a"), write(tmp_path, change, "b")], ())
    write(tmp_path, change, "of a step between")
    state = book.commit(replace(state, update=1, positions={"3": 17}), change)
    assert ledger(tmp_path).open() == state
    assert [each.path for each in state.files] == [f"{change.folder}/a", f"{change.folder}/b"]
    second = book.begin()
    second.merge([], [f"{change.folder}/a"])
    book.commit(replace(state, update=2, positions={"3": 18}), second)
    left = [each for each in (tmp_path / "prod-eu").rglob("*") if each.is_file()]
    assert [each.name for each in left] == ["b"]
    ledger(tmp_path, "other").create(replace(NEW, cluster_id="other"))
    rows = {
        each["cluster_id"]: each
        for each in opened(str(tmp_path), FOLLOWED_TABLE).to_pyarrow_table().to_pylist()
    }
    assert rows["prod-eu"]["positions"] == [("3", 18)]
    assert {name: each["update"] for name, each in rows.items()} == {"prod-eu": 2, "other": 0}


def test_of_two_only_the_first_commit_counts(tmp_path: Path) -> None:
    ledger(tmp_path).create(NEW)
    first, second, other = ledger(tmp_path), ledger(tmp_path), ledger(tmp_path, "other")
    state = first.open()
    assert state is not None
    assert second.open() == state
    other.create(replace(NEW, cluster_id="other"))
    for each in (first, second):
        each.check()
    after = first.commit(replace(state, update=1, batch=5), first.begin())
    for late in (second.check, lambda: second.commit(replace(state, update=1), second.begin())):
        with pytest.raises(ConfigError, match=r"another process writes .* 'prod-eu' in .*: end it"):
            late()
    assert ledger(tmp_path).open() == after
    first.check()


def test_files_that_count_for_nothing_are_deleted_once_they_are_old(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    state = book.create(NEW)
    kept, killed, running = book.begin(), book.begin(), book.begin()
    kept.merge([write(tmp_path, kept, "kept")], ())
    for change in (killed, running):
        write(tmp_path, change, "read")
    state = book.commit(replace(state, update=1), kept)
    folder = tmp_path / "prod-eu" / "_followed"
    for name in (state.checkpoint, "checkpoint-of-a-former-one", "mine"):
        (folder / name).mkdir()
        (folder / name / "offsets").touch()
    old_s = (tmp_path / "prod-eu").stat().st_mtime - STRAY_MS / 1000 - 1
    for each in folder.rglob("*"):
        if each.is_file() and each.parent.name != Path(running.folder).name:
            os.utime(each, (old_s, old_s))
    assert ledger(tmp_path).open() == state
    left = {each.parent.name for each in folder.rglob("*") if each.is_file()}
    names = [Path(each.folder).name for each in (kept, running)]
    assert left == {*names, state.checkpoint, "mine"}
