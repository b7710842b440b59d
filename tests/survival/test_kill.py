"""Tests what is left after kill -9 under load: everything that was acknowledged, transactions whole."""

import random
from collections import Counter
from pathlib import Path

import pytest

from groupsdk.wire.records.batch import batches
from tests.survival.load import (
    GROUP,
    PLAIN,
    TRANSACTIONAL,
    Ledger,
    Load,
    committed_offset,
    finish_transactions,
    read_all,
)
from tests.survival.processes import BrokerProcess


_TOPICS = (f"{PLAIN}:1", f"{TRANSACTIONAL}:2")
_SETTINGS = {
    # segments are rolled and snapshots written all the time
    "log.segment.bytes": 20_000,
    "offsets.topic.segment.bytes": 20_000,
    "transaction.state.log.segment.bytes": 20_000,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "log.cleaner.backoff.ms": 50,
}


def kill_again_and_again(data_dir: Path, kills: int, seed: int) -> None:
    """Kills a broker under load at moments that are not chosen, and looks after each kill what is left."""
    chance = random.Random(seed)
    ledger = Ledger()
    for _ in range(kills):
        with BrokerProcess(data_dir, topics=_TOPICS, settings=_SETTINGS) as process:
            check(process, ledger)
            with Load(process.address, ledger) as load:
                load.wait_for(chance.randint(1, 400))
                process.kill()
    with BrokerProcess(data_dir, topics=_TOPICS, settings=_SETTINGS) as process:
        check(process, ledger)
    assert len(ledger.produced) > kills
    assert ledger.committed > kills
    assert Counter(ledger.transactions.values())[True] > kills // 2


def check(process: BrokerProcess, ledger: Ledger) -> None:
    """Looks whether all that was acknowledged is there."""
    assert "will not be served" not in "\n".join(process.lines)
    with process.connect() as client:
        there = read_all(client, PLAIN)
        lost = {offset for offset, value in ledger.produced.items() if there.get(offset) != value}
        assert not lost, f"{len(lost)} of {len(ledger.produced)} records, from offset {min(lost)}"
        # no gap, and what was written without an answer is what was asked for
        assert list(there) == list(range(len(there)))

        committed = committed_offset(client, GROUP, PLAIN)
        assert ledger.committed <= committed <= ledger.tried_to_commit

        doubled = [each for each, count in Counter(ledger.producer_ids).items() if count > 1]
        assert not doubled

        finish_transactions(client)
        parts = [read_all(client, TRANSACTIONAL, p, committed=True) for p in range(2)]
        found = [Counter(int(value) for value in part.values()) for part in parts]
        for number, outcome in ledger.transactions.items():
            counts = [each[number] for each in found]
            assert counts in ([2, 2], [0, 0]), f"transaction {number} is there by halves: {counts}"
            assert outcome is None or (counts == [2, 2]) == outcome, (
                f"transaction {number}: {counts}"
            )
            # what is seen once is seen for good
            ledger.transactions[number] = counts == [2, 2]


def test_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, kills=8, seed=1)


def test_a_loss_would_be_noticed(tmp_path: Path) -> None:
    ledger = Ledger()
    with BrokerProcess(tmp_path, topics=_TOPICS) as process, Load(process.address, ledger) as load:
        load.wait_for(100)
        process.kill()
    newest = tmp_path / f"{PLAIN}-0" / f"{0:020}.log"
    # what was written without an answer, and some records more
    ends = [position for _, position in batches(newest.read_bytes())]
    with newest.open("r+b") as file:
        file.truncate(ends[len(ledger.produced) // 2])

    with (
        BrokerProcess(tmp_path, topics=_TOPICS) as process,
        pytest.raises(AssertionError, match=r"records, from offset"),
    ):
        check(process, ledger)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_200_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, kills=200, seed=2)
