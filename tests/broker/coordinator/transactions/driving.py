"""Drives a shard as the broker's runtime does: append, replay, reply, write markers; and crash."""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from groupsdk.broker.coordinator.runtime.contract import (
    NOTHING,
    LogRecord,
    MarkerPartitions,
    RequestContext,
    Result,
)
from groupsdk.broker.coordinator.transactions.log_records import TransactionRecord
from groupsdk.broker.coordinator.transactions.metadata import TransactionMetadata, TransactionState
from groupsdk.broker.coordinator.transactions.producer_ids import (
    BlockStore,
    ProducerIdAllocator,
)
from groupsdk.broker.coordinator.transactions.shard import TransactionCoordinatorShard
from groupsdk.broker.coordinator.transactions.transaction import TransactionView
from groupsdk.broker.settings.table import TransactionConfig
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from groupsdk.wire.schema import Request, Response


R = TypeVar("R", bound=Response)

TV1, TV2 = 4, 5
"""The versions of EndTxn that stand for the two generations of the protocol."""


def metadata(
    state: TransactionState = TransactionState.ONGOING, **changes: Any
) -> TransactionMetadata:
    """Makes one; a transactional id "x" of producer 7, epoch 3, begun at 900."""
    values: dict[str, Any] = {
        "transactional_id": "x",
        "producer_id": 7,
        "producer_epoch": 3,
        "timeout_ms": 60_000,
        "state": state,
        "last_update_ms": 1_000,
        "partitions": frozenset(
            {("t", 0), ("t", 2)}
            if state
            in (
                TransactionState.ONGOING,
                TransactionState.PREPARE_COMMIT,
                TransactionState.PREPARE_ABORT,
            )
            else ()
        ),
        "start_ms": -1 if state is TransactionState.EMPTY else 900,
    }
    return TransactionMetadata(**{**values, **changes})


class MemoryBlockStore:
    """Keeps the start of the next block in memory."""

    def __init__(self, next_start: int = 0) -> None:
        self._next_start = next_start

    def next_start(self) -> int:
        """Returns the first id of the block to claim next."""
        return self._next_start

    def claim(self, start: int, following: int) -> bool:
        """Takes the ids from `start` to before `following`, if no one else has."""
        if start != self._next_start:
            return False
        self._next_start = following
        return True


class Coordinator:
    """One shard with its log in memory, data partitions that take markers, and a clock that stands."""

    def __init__(
        self,
        config: TransactionConfig | None = None,
        *,
        store: BlockStore | None = None,
        log: list[LogRecord] | None = None,
    ) -> None:
        self.config = config or TransactionConfig()
        self.store = store or MemoryBlockStore()
        self.log: list[LogRecord] = list(log or ())
        self.now_ms = 1_000_000
        self.epoch = 0
        self.failing: ErrorCode | None = None
        """What the next appends fail with."""
        self.markers: list[MarkerPartitions] = []
        """Asked for and not written."""
        self.written: dict[tuple[str, int], list[MarkerPartitions]] = {}
        """What each data partition has got."""
        self._token = 0
        self._replies: dict[int, Response] = {}
        self.shard = self._start()

    def _start(self) -> TransactionCoordinatorShard:
        self.epoch += 1
        self.shard = TransactionCoordinatorShard(
            self.epoch, self.config, ProducerIdAllocator(self.store)
        )
        for value in self.shard.decode(self.log):
            self.shard.replay(value)
        self.apply(self.shard.loaded(self.now_ms))
        return self.shard

    def restart(self, keep: int | None = None) -> None:
        """Crashes, and loads the log again: its first records only, if so many are given."""
        if keep is not None:
            del self.log[keep:]
        self.markers.clear()
        self._start()

    def apply(self, result: Result) -> None:
        """Does what a result says, as the runtime does."""
        assert result.producer is None
        if result.records and self.failing is not None:
            failed = self.shard.append_failed(result, self.failing, self.now_ms)
            assert {each.token for each in failed.replies} == {
                each.token for each in result.replies
            }
            return self.apply(failed)
        self.log += [LogRecord(*pair) for each in result.records for pair in each.encoded()]
        for record in result.records:
            assert isinstance(record, TransactionRecord)
            self.shard.replay(record)
        following = self.shard.written(result, self.now_ms)
        for reply in result.replies:
            assert reply.token not in self._replies, "answered twice"
            self._replies[reply.token] = reply.response
        self.markers += result.markers
        assert following is NOTHING
        return None

    def send(self, request: Request[R], version: int) -> R:
        """Sends a request; every one is answered at once."""
        self._token += 1
        context = RequestContext(self._token, version)
        self.apply(self.shard.handle(request, context, self.now_ms))
        return cast("R", self._replies.pop(self._token))

    def write_markers(
        self, outcomes: Mapping[tuple[str, int], ErrorCode] | ErrorCode = ErrorCode.NONE
    ) -> None:
        """Writes all markers asked for, or fails to."""
        markers, self.markers = self.markers, []
        for marker in markers:
            self.write_marker(marker, outcomes)

    def write_marker(
        self,
        marker: MarkerPartitions,
        outcomes: Mapping[tuple[str, int], ErrorCode] | ErrorCode = ErrorCode.NONE,
    ) -> None:
        """Writes one marker, or fails to."""
        reported = {}
        for partition in marker.partitions:
            error = outcomes if isinstance(outcomes, ErrorCode) else outcomes[partition]
            reported[partition] = error
            if error is ErrorCode.NONE:
                self.written.setdefault(partition, []).append(marker)
        self.apply(
            self.shard.markers_written(
                marker.transactional_id,
                marker.producer_id,
                marker.producer_epoch,
                reported,
                self.now_ms,
            )
        )

    def wait(self, milliseconds: int) -> None:
        """Lets time pass, with everything that comes due on the way."""
        until_ms = self.now_ms + milliseconds
        while (due_ms := self.shard.deadline_ms) is not None and due_ms <= until_ms:
            assert due_ms >= self.now_ms or self.failing is None
            self.now_ms = max(self.now_ms, due_ms)
            self.apply(self.shard.advance(self.now_ms))
            after_ms = self.shard.deadline_ms
            assert after_ms is None or after_ms > self.now_ms, "it would be called for ever"
        self.now_ms = until_ms
        assert self.shard.advance(until_ms) == Result()

    # the requests, in short

    def init(
        self,
        transactional_id: str | None = "x",
        *,
        timeout_ms: int = 60_000,
        producer_id: int = -1,
        producer_epoch: int = -1,
        version: int = 5,
    ) -> InitProducerIdResponse:
        request = InitProducerIdRequest(transactional_id, timeout_ms, producer_id, producer_epoch)
        return self.send(request, version)

    def add(
        self,
        producer: tuple[int, int],
        *partitions: int,
        transactional_id: str = "x",
        version: int = 3,
    ) -> ErrorCode:
        """Sends an AddPartitionsToTxn for partitions of topic "t", as a producer does."""
        topic = AddPartitionsToTxnTopic("t", partitions)
        request = AddPartitionsToTxnRequest((), transactional_id, *producer, (topic,))
        response = self.send(request, version)
        (answered,) = response.results_by_topic_v3_and_below
        codes = {each.partition_error_code for each in answered.results_by_partition}
        assert [each.partition_index for each in answered.results_by_partition] == [*partitions]
        (code,) = codes
        return ErrorCode.of(code)

    def add_offsets(
        self, producer: tuple[int, int], *, transactional_id: str = "x", version: int = 3
    ) -> ErrorCode:
        """Sends an AddOffsetsToTxn for group "g"."""
        request = AddOffsetsToTxnRequest(transactional_id, *producer, "g")
        return ErrorCode.of(self.send(request, version).error_code)

    def end(
        self,
        producer: tuple[int, int],
        *,
        commit: bool = True,
        transactional_id: str = "x",
        version: int = TV1,
    ) -> EndTxnResponse:
        return self.send(EndTxnRequest(transactional_id, *producer, commit), version)

    def commit(self, producer: tuple[int, int], version: int = TV1) -> ErrorCode:
        """Sends an EndTxn that commits; returns the error only."""
        return ErrorCode.of(self.end(producer, version=version).error_code)

    def abort(self, producer: tuple[int, int], version: int = TV1) -> ErrorCode:
        """Sends an EndTxn that aborts; returns the error only."""
        return ErrorCode.of(self.end(producer, commit=False, version=version).error_code)

    def view(self, transactional_id: str = "x") -> TransactionView:
        """Shows a transactional id that is known."""
        view = self.shard.transaction(transactional_id)
        assert view is not None
        return view

    def state(self, transactional_id: str = "x") -> TransactionState:
        """Returns the state of a transactional id that is known."""
        return self.view(transactional_id).state

    def producer(self, transactional_id: str | None = "x", **options: Any) -> tuple[int, int]:
        """Initializes a producer; returns its id and epoch."""
        response = self.init(transactional_id, **options)
        assert response.error_code == ErrorCode.NONE
        return response.producer_id, response.producer_epoch
