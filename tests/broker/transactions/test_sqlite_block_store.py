"""Tests the durable store of blocks: conditional, shared, and honest about what fails."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from groupsdk.broker.transactions.producer_ids import BlockStoreError, ProducerIdAllocator
from groupsdk.broker.transactions.sqlite_block_store import SqliteBlockStore


ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ids.db"


def test_a_claim_holds_only_where_it_expects_what_is_there(path: Path) -> None:
    store, other = SqliteBlockStore(path), SqliteBlockStore(path)
    assert store.next_start() == other.next_start() == 0
    assert store.claim(0, 1_000)
    assert not other.claim(0, 1_000)
    assert other.next_start() == 1_000
    assert other.claim(1_000, 2_000)
    assert store.next_start() == 2_000
    store.close()
    other.close()
    other.close()


def test_a_claim_is_there_after_the_file_was_closed(path: Path) -> None:
    store = SqliteBlockStore(path)
    assert store.claim(0, 7)
    store.close()
    again = SqliteBlockStore(path)
    assert again.next_start() == 7
    again.close()


def test_processes_share_no_id(path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from groupsdk.broker.transactions.producer_ids import ProducerIdAllocator\n"
        "from groupsdk.broker.transactions.sqlite_block_store import SqliteBlockStore\n"
        "store = SqliteBlockStore(Path(sys.argv[1]))\n"
        "allocator = ProducerIdAllocator(store, block_size=2)\n"
        "print(*(allocator.next_id() for _ in range(50)))\n"
    )
    command = [sys.executable, "-c", script, str(path)]
    processes = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    outputs = [process.communicate(timeout=50)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    ids = [int(each) for output in outputs for each in output.split()]
    assert len(set(ids)) == len(ids) == 100


def test_a_file_that_is_no_database_is_said(path: Path) -> None:
    path.write_bytes(b"not a database, but long enough to be looked at" * 50)
    with pytest.raises(BlockStoreError, match=r"ids\.db: file is not a database"):
        SqliteBlockStore(path)


def test_a_folder_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(BlockStoreError, match="unable to open"):
        SqliteBlockStore(tmp_path / "missing" / "ids.db")


def test_a_locked_database_fails_and_works_again_later(path: Path) -> None:
    store = SqliteBlockStore(path, busy_timeout_ms=0)
    allocator = ProducerIdAllocator(store, block_size=1)
    assert allocator.next_id() == 0
    lock = sqlite3.connect(path, isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    with pytest.raises(BlockStoreError, match="locked"):
        allocator.next_id()
    lock.execute("ROLLBACK")
    lock.close()
    assert allocator.next_id() == 1
    store.close()


def test_a_row_that_was_deleted_is_said(path: Path) -> None:
    store = SqliteBlockStore(path)
    other = sqlite3.connect(path)
    other.execute("DELETE FROM producer_id_blocks")
    other.commit()
    other.close()
    with pytest.raises(BlockStoreError, match="lost its row"):
        store.next_start()
    store.close()
