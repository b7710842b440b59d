"""Follow the transactions of a log while it is compacted (Kafka: CleanedTransactionMetadata)."""

import heapq
from collections.abc import Iterable

from groupsdk.broker.log.txn_index import AbortedTxn
from groupsdk.wire.records.batch import BatchHeader
from groupsdk.wire.records.control import Marker


class CleanedTransactions:
    """Tell which batches belong to aborted transactions, and which markers are of no use any more.

    Batches have to be given in the order of the log.
    """

    def __init__(self) -> None:
        self._coming: list[tuple[int, AbortedTxn]] = []
        self._committed: set[int] = set()
        # the aborted transaction of each producer that is open here, and whether data of it was seen
        self._aborted: dict[int, tuple[AbortedTxn, bool]] = {}
        self.kept: list[AbortedTxn] = []
        """Aborted transactions that still have data: the index of the compacted segment needs them."""

    def add_aborted(self, transactions: Iterable[AbortedTxn]) -> None:
        """Make aborted transactions known, before their first batch comes."""
        for each in transactions:
            heapq.heappush(self._coming, (each.first_offset, each))

    def discard_data(self, header: BatchHeader) -> bool:
        """Take a batch of records; tells whether it was aborted, so that nothing of it is needed."""
        self._begin(header.last_offset)
        if not header.is_transactional:
            return False
        found = self._aborted.get(header.producer_id)
        if found is None:
            self._committed.add(header.producer_id)
            return False
        self._aborted[header.producer_id] = (found[0], True)
        return True

    def discard_marker(self, header: BatchHeader, marker: Marker | None) -> bool:
        """Take a control batch; tells whether no data of its transaction is left, so that it may go."""
        self._begin(header.last_offset)
        if marker is None:
            # nothing but the header is left of it, or it ends no transaction
            return header.records_count == 0
        producer_id = header.producer_id
        if marker.committed:
            if producer_id not in self._committed:
                return True
            self._committed.remove(producer_id)
            return False
        found = self._aborted.pop(producer_id, None)
        if found is None or not found[1]:
            return True
        self.kept.append(found[0])
        return False

    def _begin(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            transaction = heapq.heappop(self._coming)[1]
            self._aborted.setdefault(transaction.producer_id, (transaction, False))
