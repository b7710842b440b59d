"""Files on disk and in memory do the same, and the latter lose what was not synced."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any, NoReturn
from unittest.mock import call

import pytest
from pytest_mock import MockerFixture
from typing_extensions import override

from groupsdk.broker.log import files as files_module
from groupsdk.broker.log.files import DiskFiles, Files, MemoryFiles


@pytest.fixture(params=["disk", "memory"])
def files(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Files, str]:
    """Both kinds, with a directory to work in."""
    if request.param == "disk":
        monkeypatch.setattr(files_module, "MAX_OPEN_FILES", 2)
        return DiskFiles(), str(tmp_path)
    made = MemoryFiles()
    made.make_directory("root")
    return made, "root"


def test_both_kinds_do_what_is_asked(files: tuple[Files, str]) -> None:
    box, root = files
    one, two = f"{root}/d/one", f"{root}/d/two"
    assert box.names(f"{root}/d") == []
    box.make_directory(f"{root}/d")
    box.make_directory(f"{root}/d")
    assert not box.exists(one)
    with pytest.raises(FileNotFoundError):
        box.read(one, 0, 1)
    box.write(one, 0, b"hello")
    box.write(one, 3, bytearray(b"p!"))
    box.write(one, 7, memoryview(b"x"))
    assert box.read(one, 0, 100) == b"help!\0\0x"
    assert box.read(one, 5, 2) == b"\0\0"
    assert box.read(one, 100, 2) == b""
    assert box.size(one) == 8
    box.truncate(one, 4)
    box.sync(one)
    box.sync(f"{root}/d")
    box.write(two, 0, b"2")
    box.rename(one, two)
    assert box.read(two, 0, 10) == b"help"
    assert box.names(f"{root}/d") == ["two"]
    assert box.names(root) == ["d"]
    box.remove(two)
    box.remove(two)
    box.write(one, 0, b"again")
    box.rename(f"{root}/d", f"{root}/e")
    assert box.read(f"{root}/e/one", 0, 10) == b"again"
    box.remove_directory(f"{root}/e")
    assert not box.exists(f"{root}/e")
    assert box.names(root) == []
    box.close()


def test_a_lock_is_taken_once(files: tuple[Files, str]) -> None:
    box, root = files
    box.lock(f"{root}/.lock")
    with pytest.raises(BlockingIOError, match="this process"):
        box.lock(f"{root}/.lock")
    box.unlock(f"{root}/.lock")
    box.lock(f"{root}/.lock")
    box.unlock(f"{root}/.lock")


def test_second_process_is_refused_the_lock_and_told_who_holds_it(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    program = (
        "import sys\nfrom groupsdk.broker.log.files import DiskFiles\n"
        f"try:\n DiskFiles().lock({path!r})\nexcept BlockingIOError as e:\n print(e.strerror)\n"
    )
    files = DiskFiles()
    files.lock(path)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.strip() == f"locked by groupsdk broker, pid {os.getpid()}"
    files.unlock(path)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout == ""


def test_open_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "MAX_OPEN_FILES", 3)
    files = DiskFiles()
    for number in range(10):
        files.write(str(tmp_path / str(number)), 0, b"%d" % number)
        assert len(files._open) <= 3
    assert [files.read(str(tmp_path / str(n)), 0, 9) for n in range(10)] == [
        b"%d" % n for n in range(10)
    ]
    files.close()
    assert not files._open


def test_names_of_a_directory_are_synced_together(tmp_path: Path, mocker: MockerFixture) -> None:
    synced = mocker.patch("groupsdk.broker.log.files._sync")
    files, root = DiskFiles(), str(tmp_path)
    for name in ("a", "b"):
        files.make_directory(f"{root}/{name}")
        files.write(f"{root}/{name}/x", 0, b"1")
        files.rename(f"{root}/{name}", f"{root}/{name}-gone", sync=False)
    files.write(f"{root}/c", 0, b"2")
    assert synced.call_args_list == []
    files.sync(f"{root}/c")
    files.sync(f"{root}/b-gone")
    assert synced.call_args_list == [call(root), call(f"{root}/b-gone")]
    files.sync(f"{root}/a-gone/x")
    assert synced.call_args_list[2:] == [call(f"{root}/a-gone/x"), call(f"{root}/a-gone")]
    for name in ("a", "b"):
        files.remove_directory(f"{root}/{name}-gone")
    files.remove(f"{root}/c")
    files.close()
    assert files._new == {}


def test_a_crash_loses_what_was_not_synced() -> None:
    for torn, expected in ((0, b"safe"), (3, b"safe no"), (99, b"safe not")):
        files = MemoryFiles()
        files.write("f", 0, b"safe")
        files.sync("f")
        files.write("f", 4, b" not")
        files.write("g", 0, b"gone")
        files.lock("l")
        files.crash(torn)
        assert files.read("f", 0, 99) == expected
        assert files.read("g", 0, 99) == b"gone"[:torn]
        files.lock("l")
    files = MemoryFiles()
    files.write("f", 0, b"kept")
    files.lock("l")
    files.kill()
    files.lock("l")
    assert files.read("f", 0, 99) == b"kept"


def test_a_full_disk_takes_what_fits() -> None:
    files = MemoryFiles(capacity_bytes=5)
    files.write("f", 0, b"abc")
    with pytest.raises(OSError, match="No space left") as raised:
        files.write("f", 3, b"defg")
    assert raised.value.errno == errno.ENOSPC
    assert files.read("f", 0, 99) == b"abcde"
    files.write("f", 0, b"ABCDE")
    assert repr(files) == "MemoryFiles(1 files, 5 bytes)"


def test_every_changing_call_is_announced() -> None:
    calls: list[str] = []
    files = MemoryFiles(before=lambda call, _: calls.append(call))
    files.make_directory("d")
    files.write("d/f", 0, b"x")
    files.sync("d/f")
    files.truncate("d/f", 0)
    files.rename("d/f", "d/g")
    files.remove("d/g")
    files.remove_directory("d")
    assert calls == [
        "make_directory",
        "write",
        "sync",
        "truncate",
        "rename",
        "remove",
        "remove_directory",
    ]


@pytest.mark.parametrize("seed", range(20))
def test_both_kinds_have_the_same_names_after_any_changes(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    disk, memory, root = DiskFiles(), MemoryFiles(), str(tmp_path)
    memory.make_directory(root)
    directories = [f"{root}/a", f"{root}/b", f"{root}/a/c"]
    for each in directories:
        disk.make_directory(each)
        memory.make_directory(each)
    for _ in range(60):
        path = f"{random.choice(directories)}/{random.randrange(4)}"
        target = f"{random.choice(directories)}/{random.randrange(4)}"
        call = random.choice(("write", "remove", "rename", "exchange", "remove_directory"))
        for box in (disk, memory):
            match call:
                case "write":
                    box.write(path, 0, b"x")
                case "remove":
                    box.remove(path)
                case "rename" if box.exists(path):
                    box.rename(path, target)
                case "exchange":
                    box.rename(f"{root}/a", f"{root}/d")
                    box.rename(f"{root}/b", f"{root}/a")
                    box.rename(f"{root}/d", f"{root}/b")
                    box.make_directory(f"{root}/a/c")
                case "remove_directory":
                    box.remove_directory(f"{root}/a")
                    box.make_directory(f"{root}/a")
                    box.make_directory(f"{root}/a/c")
                case _:
                    pass
        for each in (root, *directories, f"{root}/b/c", f"{root}/none"):
            assert memory.names(each) == disk.names(each), (call, path, target)


def test_names_are_found_without_a_look_at_all_files() -> None:
    class Never(dict[str, Any]):
        @override
        def __iter__(self) -> NoReturn:
            raise AssertionError("all files were gone through")

    files = MemoryFiles()
    files._files = Never()
    files.make_directory("data/t-1")
    for number in range(3):
        files.write(f"data/t-{number}/log", 0, b"x")
    assert files.names("data/t-1") == ["log"]
    files.rename("data/t-1", "data/t-1-delete")
    files.remove_directory("data/t-1-delete")
    assert files.names("data") == ["t-0", "t-2"]


def test_names_are_synced_with_what_they_name(tmp_path: Path, mocker: MockerFixture) -> None:
    synced: list[str] = []
    mocker.patch.object(
        os,
        "fsync",
        side_effect=lambda fd: synced.append(str(Path(f"/proc/self/fd/{fd}").readlink())),
    )

    def taken() -> list[str]:
        found = [str(Path(each).relative_to(tmp_path)) for each in synced]
        synced.clear()
        return found

    box, root = DiskFiles(), str(tmp_path)
    box.make_directory(f"{root}/data/t-0")
    box.write(f"{root}/data/t-0/a", 0, b"a")
    assert taken() == []
    box.sync(f"{root}/data/t-0/a")
    assert taken() == ["data/t-0/a", "data/t-0", "data", "."]
    box.write(f"{root}/data/t-0/a", 1, b"b")
    box.sync(f"{root}/data/t-0/a")
    assert taken() == ["data/t-0/a"]
    box.write(f"{root}/data/t-0/b", 0, b"b")
    box.sync(f"{root}/data/t-0/b")
    assert taken() == ["data/t-0/b", "data/t-0"]
    box.rename(f"{root}/data/t-0/b", f"{root}/data/t-0/a")
    assert taken() == ["data/t-0"]


def test_only_the_owner_looks_into_a_directory_that_is_made(tmp_path: Path) -> None:
    DiskFiles().make_directory(f"{tmp_path}/data")
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    DiskFiles().make_directory(f"{tmp_path}/open")
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o755
