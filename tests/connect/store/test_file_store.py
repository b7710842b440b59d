"""Holds the file to what a crash may leave of it."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from groupsdk.connect.errors import StoreError
from groupsdk.connect.store import file_store
from groupsdk.connect.store.config_backing_store import connector_records
from groupsdk.connect.store.file_store import FileStore


KEY = ("a", "t0")


def filled(path: Path) -> FileStore:
    """A store with something in it."""
    store = FileStore(path)
    store.start()
    store.write_configs(connector_records("a", {"k": "v"}))
    store.fence([KEY], 3, 1)
    store.commit(KEY, 3, {"n": 1})
    return store


def test_a_last_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "store"
    filled(path).close()
    text = path.read_text()
    path.write_text(text + '{"state": [3, ["a", "t0"], {"n"')
    store = FileStore(path)
    store.start()
    assert store.fence([KEY], 4, 1) == {KEY: {"n": 1}}
    store.close()


def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store"
    for text in ('{"format": "another"}\n', "hello\n", "[]\n", '{"format": "x"}\n{}\n{}\n'):
        path.write_text(text)
        with pytest.raises(StoreError, match="line 1 was not written by this worker"):
            FileStore(path).start()
        assert path.read_text() == text


def test_a_line_in_the_middle_that_is_wrong_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store"
    filled(path).close()
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "{", *lines[1:]]))
    with pytest.raises(StoreError, match="line 2"):
        FileStore(path).start()


def test_file_store_is_compacted_from_time_to_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_store, "_JOURNAL_LIMIT", 10)
    path = tmp_path / "store"
    store = filled(path)
    for number in range(100):
        store.commit(KEY, 3, {"n": number})
    store.close()
    assert len(path.read_text().splitlines()) <= 11
    again = FileStore(path)
    again.start()
    assert again.configs().connectors == {"a": {"k": "v"}}
    assert again.fence([KEY], 4, 1) == {KEY: {"n": 99}}
    again.close()


def test_nothing_is_kept_before_it_is_opened(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not open"):
        FileStore(tmp_path / "store").commit(KEY, 3, {})


def test_a_file_that_is_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_store, "_MAX_BYTES", 10)
    (tmp_path / "store").write_text("x" * 11)
    with pytest.raises(StoreError, match="more than the limit"):
        FileStore(tmp_path / "store").start()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot (read|write)"):
        FileStore(tmp_path / "file" / "store").start()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.binary(max_size=30) | st.just(b'{"state": [3, ["a", "t"], {}]}'), max_size=4))
def test_any_file_is_read_or_refused(tmp_path: Path, lines: list[bytes]) -> None:
    path = tmp_path / "any"
    head = {"format": "groupsdk-connect-1", "offset": 0, "configs": [], "states": []}
    path.write_bytes(b"\n".join([json.dumps(head).encode(), *lines]))
    store = FileStore(path)
    try:
        store.start()
    except StoreError as error:
        assert str(path) in str(error)  # noqa: PT017  # either outcome is right
    finally:
        store.close()
