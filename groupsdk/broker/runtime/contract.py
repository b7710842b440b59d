"""What a coordinator's state machine takes and gives: values only, no socket, no file, no clock.

A machine (a shard) owns one partition of `__consumer_offsets` or `__transaction_state`. It decides; the
runtime does. For every event the runtime calls the machine, encodes `Result.records` and appends them to the
partition's log as one batch, gives the same values to `replay`, calls `written`, and sends the replies only
then. Loading decodes the log into the same values and gives them to the same `replay`. What lasts changes by
`replay` alone, so a crash is a cut of the log. What no record says (requests that wait, timers, a rebalance in
progress) changes at any time and begins again after a load. Where the append fails, nothing is replayed, and
`append_failed` returns the replies to send instead.
(Kafka: org.apache.kafka.coordinator.common.runtime.CoordinatorShard.)

The values are named tuples: several are made for every request, and a frozen dataclass takes thrice the time.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from groupsdk.error_code import ErrorCode
from groupsdk.wire.coordinator_records.declaration import CoordinatorKey, CoordinatorValue, write
from groupsdk.wire.records.pairs import Pair
from groupsdk.wire.schema import Request, Response


class LogRecord(NamedTuple):
    """One record of a coordinator's log, as bytes; a value of None is a tombstone."""

    key: bytes
    value: bytes | None

    def encoded(self) -> Sequence[Pair]:
        """Return it as it is."""
        return (self,)


class Record(Protocol):
    """A value that a coordinator writes and replays; it stands for one record of the log, or for several."""

    def encoded(self) -> Sequence[Pair]:
        """Return the keys and values as the log holds them.

        Raises:
            EncodeError: something does not fit its field.
        """


class CoordinatorRecord(NamedTuple):
    """One record of a coordinator's log, decoded; a value of None is a tombstone (Kafka: CoordinatorRecord)."""

    key: CoordinatorKey
    value: CoordinatorValue | None

    def encoded(self) -> Sequence[Pair]:
        """Return its key and value as the log holds them.

        Raises:
            EncodeError: something does not fit its field.
        """
        return (write(self.key, self.value),)


class ProducerStamp(NamedTuple):
    """The producer under which a batch is written; pending until the producer's marker arrives."""

    producer_id: int
    producer_epoch: int


class RequestContext(NamedTuple):
    """Where a request came from; `token` stands for the reply that is owed."""

    token: int
    api_version: int
    client_id: str = ""
    client_host: str = "/127.0.0.1"
    """As Java prints an address, with its slash: it is written into the group's record."""
    principal: str = "User:ANONYMOUS"


class Reply(NamedTuple):
    """The answer to the request that brought `token`; each token is answered exactly once."""

    token: int
    response: Response


class MarkerPartitions(NamedTuple):
    """Ask for the end of a transaction to be written to the partitions it touched (WriteTxnMarkers)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    partitions: tuple[tuple[str, int], ...]


class Result(NamedTuple):
    """What is to be done: append the records, then send the replies, then write the markers."""

    records: tuple[Record, ...] = ()
    replies: tuple[Reply, ...] = ()
    producer: ProducerStamp | None = None
    """Write the records as a transactional batch of this producer (TxnOffsetCommit)."""
    markers: tuple[MarkerPartitions, ...] = ()
    refusal: Callable[[ErrorCode], tuple[Reply, ...]] | None = None
    """Makes the replies to send instead where the records cannot be written; None: the machine keeps them itself."""


NOTHING = Result()


class CoordinatorShard(Protocol):
    """The state machine of one partition of a coordinator's log; called by one thread only."""

    def decode(self, records: Sequence[Pair]) -> Iterable[Record]:
        """Decode records of the log, keys and values, into what `replay` takes; unknown types are skipped.

        The records are of one producer, or of none. Those of different places in the state may be given in
        another order, and several as one value.

        Raises:
            DecodeError: a known record type in a version or with bytes that cannot be read; the values of the
                records before it were given.
        """

    def replay(self, record: Any, producer: ProducerStamp | None = None) -> None:
        """Apply one value of `decode` or of `Result.records`, which is in the log.

        Args:
            record: the value.
            producer: of a transactional batch; its effect stays pending until `replay_marker`.
        """

    def written(self, result: Result, now_ms: int) -> Result:
        """Go on after the records of a result were appended and replayed; changes nothing that lasts.

        Returns:
            What follows: replies to requests that waited for the records, timers, further records.
        """
        return NOTHING

    def replay_marker(self, producer: ProducerStamp, *, committed: bool) -> None:
        """Apply a commit or abort marker found in, or just appended to, this partition."""

    def loaded(self, now_ms: int) -> Result:
        """Take up service after the whole log was replayed: arm session timers, resume what was prepared."""

    def handle(self, request: Request[Any], context: RequestContext, now_ms: int) -> Result:
        """Take a request; its reply is in this result or in a later one."""

    def advance(self, now_ms: int) -> Result:
        """Do everything that is due."""

    @property
    def deadline_ms(self) -> int | None:
        """When `advance` is to be called next; None: nothing is due ever. May move after every call."""

    def append_failed(self, result: Result, error: ErrorCode, now_ms: int) -> Result:
        """Continue after the records of a result could not be written. Return the replies to send instead."""

    def unload(self, error: ErrorCode, now_ms: int) -> Result:
        """Answer everything that waits with this error (NOT_COORDINATOR when the partition moves away)."""


@runtime_checkable
class GatheringShard(CoordinatorShard, Protocol):
    """A state machine that takes some requests together: what came in one turn of the loop is one append."""

    def may_wait(self, request: Request[Any]) -> bool:
        """Return whether a request may be batched with others like it."""

    def handle_all(
        self, requests: Sequence[tuple[Request[Any], RequestContext]], now_ms: int
    ) -> Result:
        """Take requests that waited, one after the other; one result for all of them, of no producer.

        Where its records cannot be written, nothing is done of it, and the requests are handed over one by one.
        """

    def refuse(self, request: Request[Any], error: ErrorCode) -> Response:
        """Say an error to a request that waited."""
