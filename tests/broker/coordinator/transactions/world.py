"""Plays producers and data partitions around a shard, and checks what holds for all transactions.

A data partition keeps what was written to it, and markers between. Whatever happens, what one transaction
wrote is committed on all of its partitions or on none, and as its producer was told.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from typing_extensions import override

from groupsdk.broker.coordinator.runtime.contract import LogRecord, MarkerPartitions, Result
from groupsdk.broker.coordinator.transactions.log_records import transaction_record
from groupsdk.broker.coordinator.transactions.metadata import EXPIRABLE
from groupsdk.broker.coordinator.transactions.producer_ids import ProducerIdAllocator
from groupsdk.broker.coordinator.transactions.shard import TransactionCoordinatorShard
from groupsdk.broker.settings.table import TransactionConfig
from groupsdk.error_code import ErrorCode
from tests.broker.coordinator.transactions.driving import TV2, Coordinator, MemoryBlockStore


class CrashError(Exception):
    """The broker is gone: no reply, no marker."""


@dataclass
class Written:
    """One batch of a transaction in a data partition."""

    serial: int
    producer_id: int
    outcome: bool | None = None
    """Whether the first marker after it commits it; None: it is open."""


@dataclass
class DataPartition:
    """A partition that producers write to."""

    batches: list[Written] = field(default_factory=list)
    epochs: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The highest epoch of each producer id, and of the coordinator that wrote its last marker."""

    def write(self, serial: int, producer: tuple[int, int]) -> bool:
        """Takes a batch, unless the producer is fenced."""
        producer_id, epoch = producer
        known, coordinator = self.epochs.get(producer_id, (-1, -1))
        if epoch < known:
            return False
        self.epochs[producer_id] = (epoch, coordinator)
        self.batches.append(Written(serial, producer_id))
        return True

    def mark(self, marker: MarkerPartitions) -> ErrorCode:
        """Takes a marker, unless its producer or its coordinator is fenced."""
        known, coordinator = self.epochs.get(marker.producer_id, (-1, -1))
        if marker.producer_epoch < known:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < coordinator:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        self.epochs[marker.producer_id] = (marker.producer_epoch, marker.coordinator_epoch)
        for batch in self.batches:
            if batch.producer_id == marker.producer_id and batch.outcome is None:
                batch.outcome = marker.committed
        return ErrorCode.NONE


@dataclass
class Client:
    """A producer, as far as it knows."""

    transactional_id: str
    version: int
    """Of EndTxn: which generation of the protocol it speaks."""
    producer: tuple[int, int] | None = None
    serial: int | None = None
    """Of its open transaction."""
    last_end: tuple[tuple[int, int], bool, int | None] | None = None
    """The producer, outcome and transaction of its last EndTxn."""


class World(Coordinator):
    """A shard with data partitions and producers."""

    def __init__(self, config: TransactionConfig) -> None:
        self.data: dict[tuple[str, int], DataPartition] = {}
        self.told: dict[int, bool] = {}
        """What the producers of transactions were told."""
        self.owners: dict[str, Client] = {}
        """Who was initialized last."""
        self.crash_at: int | None = None
        """How many records the log takes before the broker crashes."""
        self._serial = 0
        self._ids: dict[int, str] = {}
        super().__init__(config)

    @override
    def apply(self, result: Result) -> None:
        if self.failing is None and self.crash_at is not None:
            room = self.crash_at - len(self.log)
            written = [LogRecord(*pair) for each in result.records for pair in each.encoded()]
            if len(written) >= room:
                self.log += written[:room]
                self.crash_at = None
                raise CrashError
        super().apply(result)

    @override
    def write_marker(
        self,
        marker: MarkerPartitions,
        outcomes: Mapping[tuple[str, int], ErrorCode] | ErrorCode = ErrorCode.NONE,
    ) -> None:
        reported = {}
        for place in marker.partitions:
            error = outcomes if isinstance(outcomes, ErrorCode) else outcomes[place]
            if error is ErrorCode.NONE:
                error = self.data.setdefault(place, DataPartition()).mark(marker)
                assert error is ErrorCode.NONE, f"{marker} is refused on {place}: {error.name}"
            reported[place] = error
        self.apply(
            self.shard.markers_written(
                marker.transactional_id,
                marker.producer_id,
                marker.producer_epoch,
                reported,
                self.now_ms,
            )
        )

    # what producers do

    def initialize(self, client: Client, *, goes_on: bool) -> None:
        """A producer starts, or goes on after an error with the epoch that it has."""
        given = client.producer if goes_on and client.producer else (-1, -1)
        response = self.init(client.transactional_id, producer_id=given[0], producer_epoch=given[1])
        error = ErrorCode.of(response.error_code)
        if error is not ErrorCode.NONE:
            assert (response.producer_id, response.producer_epoch) == (-1, -1)
            return
        assert 0 <= response.producer_epoch < 32_767
        if given != (-1, -1):
            assert self.owners[client.transactional_id] is client, "a fenced producer came back"
        producer_id = response.producer_id
        assert self._ids.setdefault(producer_id, client.transactional_id) == (
            client.transactional_id
        ), "one producer id for two"
        client.producer = (producer_id, response.producer_epoch)
        client.serial = None
        self.owners[client.transactional_id] = client

    def write(self, client: Client, place: tuple[str, int], *, adds: bool = True) -> None:
        """A producer writes to a partition: adds it first, unless it forgets to."""
        if client.producer is None:
            return
        if client.serial is not None and client.last_end and client.last_end[2] == client.serial:
            return  # it asked to end it and does not know what became of that: it may only ask again
        named = (client.transactional_id, *client.producer)
        serial = client.serial
        if serial is None:
            self._serial += 1
            serial = self._serial
        places = frozenset({place})
        if client.version == TV2 and adds:
            added = self.shard.add_partitions(*named, places, now_ms=self.now_ms)
            before = len(self.log)
            self.apply(added.result)
            written = len(self.log) - before == len(added.result.records)
            error = added.error if written else ErrorCode.COORDINATOR_NOT_AVAILABLE
        else:
            error = ErrorCode.NONE
            if adds:
                error = self.add(
                    client.producer, place[1], transactional_id=client.transactional_id
                )
            if error is ErrorCode.NONE:
                error = self.shard.verify(*named, places)[place]
        if error is not ErrorCode.NONE:
            return
        assert self.owners[client.transactional_id] is client, "a fenced producer was let in"
        if self.data.setdefault(place, DataPartition()).write(serial, client.producer):
            client.serial = serial

    def finish(self, client: Client, *, commit: bool, again: bool = False) -> None:
        """A producer ends its transaction, or repeats that it did."""
        if client.producer is None:
            return
        producer, serial = client.producer, client.serial
        if again:
            if client.last_end is None:
                return
            producer, commit, serial = client.last_end
            if client.version != TV2 and client.serial not in (None, serial):
                return  # without the bump it would end the next one: what KIP-890 is for
        # An end of nothing that is refused, or lost, is not asked for again: it could end what comes next.
        client.last_end = None if serial is None else (producer, commit, serial)
        response = self.end(
            producer,
            commit=commit,
            transactional_id=client.transactional_id,
            version=client.version,
        )
        if response.error_code != ErrorCode.NONE:
            return
        assert self.owners[client.transactional_id] is client, "a fenced producer was let in"
        client.last_end = (producer, commit, serial)
        if serial is not None:
            assert self.told.setdefault(serial, commit) is commit, "two answers"
        if client.version == TV2:
            assert 0 <= response.producer_epoch < 32_767
            self._ids.setdefault(response.producer_id, client.transactional_id)
            client.producer = (response.producer_id, response.producer_epoch)
        if client.serial == serial:
            client.serial = None

    def lift(self, transactional_id: str, epoch: int) -> None:
        """Raises the epoch of an idle producer to near its end, as thousands of restarts would."""
        view = self.shard.transaction(transactional_id)
        owner = self.owners.get(transactional_id)
        if view is None or owner is None or view.state not in EXPIRABLE or view.pending_state:
            return
        if owner.producer is None or view.producer_epoch >= epoch:
            return
        latest = next(
            each for each in reversed(self.log) if each.key[4:] == transactional_id.encode()
        )
        if latest.value is None:
            return
        value = latest.value[:10] + epoch.to_bytes(2) + latest.value[12:]
        self.log.append(latest._replace(value=value))
        self.restart()
        owner.producer = (view.producer_id, epoch)
        owner.serial = owner.last_end = None

    # what holds

    def check(self) -> None:
        """Checks what holds at every moment."""
        outcomes: dict[int, set[bool]] = {}
        for partition in self.data.values():
            for batch in partition.batches:
                if batch.outcome is not None:
                    outcomes.setdefault(batch.serial, set()).add(batch.outcome)
        for serial, found in outcomes.items():
            assert len(found) == 1, f"transaction {serial} is torn"
            told = self.told.get(serial)
            assert told is None or {told} == found, f"transaction {serial}: not as it was told"
        self._check_replay()

    def _check_replay(self) -> None:
        """The log alone gives what lasts of the running shard."""
        ids = ProducerIdAllocator(MemoryBlockStore())
        loaded = TransactionCoordinatorShard(99, self.config, ids)
        for record in loaded.decode(self.log):
            loaded.replay(record)
        running = {each.logged.transactional_id: each.logged for each in self.shard._state_manager}
        assert {
            each.logged.transactional_id: each.logged for each in loaded._state_manager
        } == running
        for transaction in self.shard._state_manager:
            if not transaction.failed_fence:
                version = self.config.transaction_version
                assert transaction_record(transaction.metadata, version).metadata == (
                    transaction.logged
                ), "what counts in memory differs in what a record says"

    def settle(self) -> None:
        """Lets everything come to its end without further faults, and checks that it does."""
        self.failing = None
        self.crash_at = None
        for _ in range(5):
            self.write_markers()
            self.wait(500_000)
        assert self.markers == []
        for view in self.shard.transactions:
            assert view.state in EXPIRABLE, f"{view} never ends"
            assert view.pending_state is None
        for place, partition in self.data.items():
            for batch in partition.batches:
                assert batch.outcome is not None, f"{batch} is open for ever on {place}"
        self.check()
