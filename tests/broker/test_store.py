"""Tests where small facts are kept: both stores keep the same promises."""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from groupsdk.broker.store import MemoryStore, SqliteStore, Store, StoreError
from groupsdk.error_code import ErrorCode


OpenStore = Callable[[], Store]


@pytest.fixture(params=["memory", "file"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Opens the same store each time."""
    memory = MemoryStore()
    if request.param == "memory":
        return lambda: memory
    return lambda: SqliteStore(tmp_path / "store.sqlite")


def test_facts_outlast_their_store(open_store: OpenStore) -> None:
    store = open_store()
    store.write([("a", "1", {"x": [1, 2]}), ("a", "2", "text"), ("b", "1", 5)])
    store.write([("a", "2", None), ("b", "1", 6)])
    store.close()

    again = open_store()
    assert sorted(again.facts(), key=str) == [("a", "1", {"x": [1, 2]}), ("b", "1", 6)]
    # the first producer id must not read all topics
    assert list(again.facts("b")) == [("b", "1", 6)]
    assert list(again.facts("c")) == []
    again.close()


def test_every_change_is_on_the_disk_before_it_counts(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s")
    # 2 is FULL: SQLite itself syncs with each commit
    assert store._base.execute("PRAGMA synchronous").fetchone() == (2,)
    assert store._base.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    store.close()


def test_nobody_else_reads_the_users_credentials(tmp_path: Path) -> None:
    path = tmp_path / "s"
    seen: set[int] = set()
    for _ in range(2):
        store = SqliteStore(path)
        store._base.execute("PRAGMA journal_mode = PERSIST")
        store.write([("user", "alice", "secret")])
        seen |= {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
        store.close()
        # as earlier versions made it
        path.chmod(0o644)
        seen.discard(0o644)
    assert seen == {0o600}


def test_a_fact_is_replaced_only_if_it_is_as_expected(open_store: OpenStore) -> None:
    store = open_store()
    assert store.replace("n", "k", None, 1)
    assert not store.replace("n", "k", None, 2)
    assert not store.replace("n", "k", 5, 2)
    assert store.replace("n", "k", 1, 2)
    assert list(store.facts()) == [("n", "k", 2)]
    store.close()


def test_two_stores_of_one_file_never_both_replace(tmp_path: Path) -> None:
    one, two = SqliteStore(tmp_path / "s"), SqliteStore(tmp_path / "s")
    assert one.replace("n", "k", None, 1)
    assert not two.replace("n", "k", None, 7)
    assert two.replace("n", "k", 1, 2)
    assert not one.replace("n", "k", 1, 3)
    one.close()
    two.close()


def test_changes_are_made_together_or_not_at_all(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s")
    with pytest.raises(TypeError):
        store.write([("a", "1", 1), ("a", "2", object())])
    assert list(store.facts()) == []
    store.write([("a", "1", 1)])
    assert list(store.facts()) == [("a", "1", 1)]
    store.close()


def test_a_file_that_is_no_store_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_bytes(b"this is no database at all, but a text of some length" * 30)
    with pytest.raises(StoreError, match="not a database"):
        SqliteStore(path)


def open_files(folder: Path) -> list[Path]:
    """Return the files in a folder that this process has open, as Linux tells them."""
    found: list[Path] = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one of this listing
            found.append(each.readlink())
    return [each for each in found if each.parent == folder]


def test_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    base = sqlite3.connect(tmp_path / "s")
    base.execute("PRAGMA user_version = 9")
    base.commit()
    base.close()
    with pytest.raises(StoreError, match="format 9") as refused:
        SqliteStore(tmp_path / "s")
    # not by the garbage collector, which cannot come while somebody looks at the error
    assert refused.value.__traceback__ is not None
    assert not open_files(tmp_path)


def test_a_full_disk_is_told_and_the_store_goes_on(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s")
    store.write([("a", "1", "kept")])
    (pages,) = store._base.execute("PRAGMA page_count").fetchone()
    # what SQLite finds where the disk is full: it rolls back by itself
    store._base.execute(f"PRAGMA max_page_count = {pages}")
    large = "x" * 1_000_000
    for change in (
        lambda: store.write([("a", "1", "lost"), ("a", "2", large)]),
        lambda: store.replace("a", "2", None, large),
    ):
        with pytest.raises(StoreError, match="disk is full") as caught:
            change()
        assert caught.value.error_code is ErrorCode.KAFKA_STORAGE_ERROR
    store.write([("a", "3", "new")])
    assert sorted(store.facts()) == [("a", "1", "kept"), ("a", "3", "new")]
    store.close()
