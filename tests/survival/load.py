"""Puts a broker under load that it may lose at any moment, and knows what was acknowledged."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Self

from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.fetch import (
    AbortedTransaction,
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from groupsdk.wire.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
)
from groupsdk.wire.records.batch import batches
from groupsdk.wire.records.record import Record, build_batch, read_records
from tests.broker.clients import Client, batch, produce


_END_S: Final = 60.0
_BUSY: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_COORDINATOR,
    }
)
_PER_TRANSACTION: Final = 4
PLAIN: Final = "plain"
TRANSACTIONAL: Final = "transactional"
GROUP: Final = "committers"


class Ledger:
    """What the broker has acknowledged, over all of its lives."""

    def __init__(self) -> None:
        self.produced: dict[int, bytes] = {}
        """Values by their offsets in the plain topic."""
        self.committed = -1
        """The newest offset that was committed for the group."""
        self.tried_to_commit = -1
        """The newest offset that the group tried to commit."""
        self.producer_ids: list[int] = []
        self.transactions: dict[int, bool | None] = {}
        """By their numbers, whether they were committed or aborted; None: no one knows."""


class Load:
    """Produces, commits, makes producer ids and transactions, each on a thread, until the broker is gone."""

    def __init__(self, address: tuple[str, int], ledger: Ledger) -> None:
        self._address = address
        self._ledger = ledger
        self._problems: list[BaseException] = []
        self._sequences: Counter[tuple[int, int, int]] = Counter()
        self._enough = threading.Semaphore(0)
        works = (self._produce, self._commit, self._make_ids, self._transact)
        self._threads = [
            threading.Thread(target=self._until_gone, args=(work,), daemon=True) for work in works
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for thread in self._threads:
            thread.join(_END_S)
        if kind is None:
            assert not any(thread.is_alive() for thread in self._threads), "a client hangs"
            assert not self._problems, self._problems

    def wait_for(self, acknowledged: int) -> None:
        """Waits until the broker has acknowledged this many requests of any kind."""
        for _ in range(acknowledged):
            assert self._enough.acquire(timeout=_END_S), "the broker answers no more"

    def _until_gone(self, work: Callable[[Client], None]) -> None:
        try:
            with Client(self._address) as client:
                while True:
                    work(client)
        except ConnectionError:
            # the broker was killed
            return
        except BaseException as error:
            self._problems.append(error)
            raise

    def _produce(self, client: Client) -> None:
        value = b"value %d" % len(self._ledger.produced)
        answer = produce(client, PLAIN, batch(value))
        assert answer.error_code == 0, answer
        self._ledger.produced[answer.base_offset] = value
        self._enough.release()

    def _commit(self, client: Client) -> None:
        offset = self._ledger.tried_to_commit = self._ledger.tried_to_commit + 1
        parts = (OffsetCommitRequestPartition(0, offset),)
        asked = OffsetCommitRequest(
            GROUP, topics=(OffsetCommitRequestTopic(PLAIN, partitions=parts),)
        )
        code = client.ask(asked, 8).topics[0].partitions[0].error_code
        if code not in _BUSY:
            assert code == 0, code
            self._ledger.committed = offset
            self._enough.release()

    def _make_ids(self, client: Client) -> None:
        made = client.ask(InitProducerIdRequest(None, 1_000), 4)
        assert made.error_code == 0, made
        self._ledger.producer_ids.append(made.producer_id)
        self._enough.release()

    def _transact(self, client: Client) -> None:
        made = client.ask(InitProducerIdRequest("t-id", 60_000), 4)
        if made.error_code in _BUSY:
            return
        assert made.error_code == 0, made
        while True:
            self._one_transaction(client, made.producer_id, made.producer_epoch)

    def _one_transaction(self, client: Client, producer_id: int, epoch: int) -> None:
        ledger = self._ledger
        number = len(ledger.transactions)
        committed = number % 3 != 2
        for partition in range(2):
            add = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="t-id",
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=(AddPartitionsToTxnTopic(TRANSACTIONAL, (partition,)),),
            )
            self._ask_until_free(client, add)
        ledger.transactions[number] = None
        for sequence in range(_PER_TRANSACTION):
            partition = sequence % 2
            data = build_batch(
                [Record(0, 1_000, None, b"%d" % number)],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=self._sequences[producer_id, epoch, partition],
                transactional=True,
            )
            answer = produce(
                client, TRANSACTIONAL, data, partition=partition, transactional_id="t-id"
            )
            assert answer.error_code == 0, answer
            self._sequences[producer_id, epoch, partition] += 1
        # from here on it may be committed, whether or not we learn of it
        ended = client.ask(EndTxnRequest("t-id", producer_id, epoch, committed), 3)
        assert ended.error_code == 0, ended
        ledger.transactions[number] = committed
        self._enough.release()

    def _ask_until_free(self, client: Client, asked: AddPartitionsToTxnRequest) -> None:
        while True:
            code = client.ask(asked, 3).results_by_topic_v3_and_below[0].results_by_partition[0]
            if code.partition_error_code not in _BUSY:
                assert code.partition_error_code == 0, code
                return


def read_all(
    client: Client, topic: str, partition: int = 0, *, committed: bool = False
) -> dict[int, bytes]:
    """Reads all records of a partition, or those of committed transactions, by their offsets."""
    found: dict[int, bytes] = {}
    offset = 0
    while True:
        wanted = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=2**20)
        topics = (FetchTopic(topic, partitions=(wanted,)),)
        answer = client.ask(
            FetchRequest(max_wait_ms=0, isolation_level=int(committed), topics=topics), 11
        )
        part = answer.responses[0].partitions[0]
        assert part.error_code == 0, part.error_code
        if not part.records:
            assert part.last_stable_offset == part.high_watermark == offset
            return found
        offset = _take(part.records, found, part.aborted_transactions or ())


def _take(data: bytes, found: dict[int, bytes], aborted: Sequence[AbortedTransaction]) -> int:
    begins = sorted((each.first_offset, each.producer_id) for each in aborted)
    inside: set[int] = set()
    offset = -1
    for header, position in batches(data):
        offset = header.last_offset + 1
        while begins and begins[0][0] <= header.last_offset:
            inside.add(begins.pop(0)[1])
        if header.is_control:
            inside.discard(header.producer_id)
            continue
        if header.producer_id in inside and header.is_transactional:
            continue
        for record in read_records(data[position : position + header.size_in_bytes]):
            found[record.offset] = record.value or b""
    return offset


def committed_offset(client: Client, group_id: str, topic: str) -> int:
    """Returns what a group has committed for partition 0 of a topic, once that is loaded."""
    asked = OffsetFetchRequest(
        group_id, (OffsetFetchRequestTopic(topic, (0,)),), require_stable=True
    )
    while True:
        answer = client.ask(asked, 7)
        if answer.error_code in _BUSY:
            continue
        assert answer.error_code == 0, answer
        return answer.topics[0].partitions[0].committed_offset


def finish_transactions(client: Client) -> None:
    """Ends the transaction that was left open, and returns when its markers are written."""
    while True:
        made = client.ask(InitProducerIdRequest("t-id", 60_000), 4)
        if made.error_code not in _BUSY:
            assert made.error_code == 0, made
            return
