"""The account of the files that make the tables."""

from pathlib import Path

import pytest
from pyarrow import fs

from groupsdk.errors import ConfigError
from groupsdk.history.tables.ledger import CURRENT, NEXT, Change, Ledger, LiveFile, State


def ledger(root: Path) -> Ledger:
    """Return the ledger of a directory."""
    return Ledger(fs.LocalFileSystem(), str(root))


def write(root: Path, change: Change, name: str) -> tuple[str, LiveFile]:
    """Write a file as a task does."""
    (root / change.folder / name).write_text(name, encoding="utf-8")
    return name, LiveFile("lag", f"lag/{name}")


def begun(root: Path) -> tuple[Ledger, State]:
    """Make a ledger."""
    found = ledger(root)
    return found, found.create(State("log", "code", "[]", 4))


def test_an_update_counts_as_a_whole(tmp_path: Path) -> None:
    book, state = begun(tmp_path)
    change = book.begin()
    change.merge([write(tmp_path, change, "a"), write(tmp_path, change, "b")], ())
    assert not (tmp_path / "lag").exists()
    state = book.commit(
        State("log", "code", "[]", 4, update=1, checkpoint=state.checkpoint), change
    )
    assert {each.name for each in (tmp_path / "lag").iterdir()} == {"a", "b"}
    assert ledger(tmp_path).open() == state
    second = book.begin()
    second.merge([write(tmp_path, second, "c")], ["lag/a"])
    after = book.commit(state, second)
    assert [each.path for each in after.files] == ["lag/b", "lag/c"]
    assert {each.name for each in (tmp_path / "lag").iterdir()} == {"b", "c"}
    assert after.of("lag", kind="closed", bucket=-1) == [*after.files]
    assert after.of("storms") == []


def test_interrupted_update_is_completed_or_undone(tmp_path: Path) -> None:
    book, state = begun(tmp_path)
    change = book.begin()
    change.merge([write(tmp_path, change, "a")], ())
    assert ledger(tmp_path).open() == state
    assert not (tmp_path / change.folder).exists()


def test_files_that_nobody_accounted_for_go_with_the_first_update(tmp_path: Path) -> None:
    for name in ("lag/part-0.parquet", "offset_commits/day=2000-01-01/part-0.parquet", "mine"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    book, state = begun(tmp_path)
    assert (tmp_path / "lag" / "part-0.parquet").exists()
    change = book.begin()
    book.commit(State("log", "code", "[]", 4, update=1, checkpoint=state.checkpoint), change)
    left = {str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()}
    assert left == {"mine", CURRENT}


def test_a_new_ledger_never_takes_the_checkpoint_of_another(tmp_path: Path) -> None:
    book, first = begun(tmp_path)
    folder = tmp_path / Path(CURRENT).parent
    (folder / first.checkpoint).mkdir()
    second = book.create(first)
    assert second.checkpoint != first.checkpoint
    (folder / first.checkpoint).mkdir()
    (folder / second.checkpoint).mkdir()
    assert ledger(tmp_path).open() == second
    assert sorted(each.name for each in folder.iterdir() if each.is_dir()) == [second.checkpoint]


def test_a_ledger_of_another_version_is_said(tmp_path: Path) -> None:
    assert ledger(tmp_path).open() is None
    (tmp_path / CURRENT).parent.mkdir()
    (tmp_path / CURRENT).write_text('{"format": 0}', encoding="utf-8")
    with pytest.raises(ConfigError, match="another version"):
        ledger(tmp_path).open()
    assert not (tmp_path / NEXT).exists()
