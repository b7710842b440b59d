"""Play a transactional producer, as far as the offsets in its transactions go (KIP-447, KIP-890)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final

from groupsdk.error_code import ErrorCode
from groupsdk.testing.simulation.broker_process import BrokerProcess
from groupsdk.testing.simulation.timeline import Timeline
from groupsdk.testing.simulation.work import TopicPartition, by_topic
from groupsdk.types import Generation
from groupsdk.wire.messages.transactions import (
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from groupsdk.wire.schema import Request, Response


_TRANSACTION_TIMEOUT_MS: Final = 10_000
_REQUEST_TIMEOUT_MS: Final = 4_000
_RETRY_MS: Final = 100
_LATENCIES_MS: Final = (1, 1, 2, 3, 10, 40)
_FENCED: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
"""The group has gone on without the member: the transaction is aborted."""
Then = Callable[[Any], None]


class Producer:
    """Commits offsets in transactions, one after the other.

    Requests may be lost or late, and so may answers: each is repeated until something comes of it.

    Args:
        later: calls a function of the producer's process after so many ms, if it lives by then.
    """

    def __init__(
        self,
        timeline: Timeline,
        random: Random,
        process: BrokerProcess,
        transactional_id: str,
        later: Callable[[int, Callable[[], None]], None],
        is_connected: Callable[[], bool],
    ) -> None:
        self.is_busy = False
        """Whether a transaction is open."""
        self._timeline = timeline
        self._random = random
        self._process = process
        self._transactional_id = transactional_id
        self._later = later
        self._is_connected = is_connected
        self._producer: tuple[int, int] | None = None
        """Id and epoch; None: to be asked for."""
        self._asked = 0
        self._done: Callable[[bool], None] = lambda _: None

    def commit(
        self,
        group_id: str,
        generation: Generation,
        instance_id: str | None,
        offsets: Mapping[TopicPartition, int],
        done: Callable[[bool], None],
    ) -> None:
        """Commit offsets as a member of a generation; `done` is told whether they were committed for certain."""
        assert not self.is_busy
        self.is_busy = True
        self._done = done
        request = TxnOffsetCommitRequest(
            transactional_id=self._transactional_id,
            group_id=group_id,
            generation_id_or_member_epoch=generation.generation_id,
            member_id=generation.member_id,
            group_instance_id=instance_id,
            topics=tuple(
                TxnOffsetCommitRequestTopic(
                    topic,
                    partitions=tuple(
                        TxnOffsetCommitRequestPartition(each, offsets[topic, each])
                        for each in partitions
                    ),
                )
                for topic, partitions in by_topic(offsets).items()
            ),
        )
        # records are produced between the moment at which the generation is read and that at which it is sent
        produced_ms = self._random.choice((0, 0, 20, 500, 3_000))
        self._later(produced_ms, lambda: self._begin(request))

    def _begin(self, request: TxnOffsetCommitRequest) -> None:
        if self._producer is not None:
            self._send_offsets(request, self._producer)
            return

        def told(answer: Any) -> None:
            code = _code(answer)
            if code is ErrorCode.NONE:
                self._producer = (answer.producer_id, answer.producer_epoch)
                self._begin(request)
            elif _is_passing(code):
                self._again(lambda: self._begin(request))
            else:
                self._end(committed=False)

        self._ask_transactions(
            InitProducerIdRequest(self._transactional_id, _TRANSACTION_TIMEOUT_MS), told
        )

    def _send_offsets(self, request: TxnOffsetCommitRequest, producer: tuple[int, int]) -> None:
        producer_id, epoch = producer
        stamped = replace(request, producer_id=producer_id, producer_epoch=epoch)

        def told(answer: Any) -> None:
            codes: set[ErrorCode | None] = {None}
            if answer is not None:
                codes = {
                    ErrorCode.of(each.error_code)
                    for topic in answer.topics
                    for each in topic.partitions
                }
            if codes == {ErrorCode.NONE}:
                committed = self._random.random() < 0.85
                pause_ms = self._random.choice((0, 0, 20, 500, 3_000))
                self._later(pause_ms, lambda: self._finish(producer, committed=committed))
            elif codes & _FENCED:
                self._finish(producer, committed=False)
            elif any(_is_passing(each) for each in codes):
                self._again(lambda: self._send_offsets(request, producer))
            else:
                self._fenced()

        self._ask(self._process.coordinator(request.group_id), stamped, told)

    def _finish(self, producer: tuple[int, int], *, committed: bool) -> None:
        def told(answer: Any) -> None:
            code = _code(answer)
            if code is ErrorCode.NONE:
                self._producer = (answer.producer_id, answer.producer_epoch)
                self._end(committed=committed)
            elif _is_passing(code):
                self._again(lambda: self._finish(producer, committed=committed))
            else:
                self._fenced()

        self._ask_transactions(EndTxnRequest(self._transactional_id, *producer, committed), told)

    def _fenced(self) -> None:
        """Begin anew with another epoch, which ends what may be left open."""
        self._producer = None
        self._end(committed=False)

    def _end(self, *, committed: bool) -> None:
        self.is_busy = False
        self._done(committed)

    def _again(self, action: Callable[[], None]) -> None:
        self._later(_RETRY_MS, action)

    def _ask_transactions(self, request: Request[Any], then: Then) -> None:
        self._ask(self._process.transaction_coordinator(self._transactional_id), request, then)

    def _ask(self, node_id: int | None, request: Request[Any], then: Then) -> None:
        """Send a request; `then` is given the answer, or None if there is none in time."""
        self._asked += 1
        number = self._asked

        def finish(answer: Response | None) -> None:
            if number == self._asked:
                self._asked += 1
                then(answer)

        def arrive() -> None:
            if node_id is not None and self._is_connected():
                self._process.handle(node_id, request, answered, self._transactional_id)

        def answered(response: Response) -> None:
            if self._random.random() < 0.97:
                self._later(self._latency_ms(), lambda: finish(response))

        fate = self._random.random()
        if fate < 0.95:
            self._timeline.after(self._latency_ms(), arrive)
        elif fate < 0.98:  # over a connection that was given up meanwhile
            self._timeline.after(self._random.randrange(1_000, 6_000), arrive)
        self._later(_REQUEST_TIMEOUT_MS, lambda: finish(None))

    def _latency_ms(self) -> int:
        return self._random.choice(_LATENCIES_MS)


def _code(answer: Any) -> ErrorCode | None:
    return None if answer is None else ErrorCode.of(answer.error_code)


def _is_passing(code: ErrorCode | None) -> bool:
    """Return whether a request is to be repeated; one without an answer is."""
    return code is None or code.retriable or code is ErrorCode.CONCURRENT_TRANSACTIONS
