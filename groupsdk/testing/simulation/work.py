"""Read, work and commit as a process does: with or without retries, or in transactions."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from random import Random
from typing import Any, Final, NamedTuple

from groupsdk import assignment
from groupsdk.clock import Clock
from groupsdk.consumer.calls import CoordinatorCalls
from groupsdk.consumer.commits import Committer
from groupsdk.error_code import ErrorCode
from groupsdk.errors import GroupSdkError
from groupsdk.lazy_imports import override
from groupsdk.member.events import CallerRequest
from groupsdk.member.requests import CoordinatorRequest
from groupsdk.settings.backoff import ExponentialBackoff
from groupsdk.snapshot import MemberSnapshot
from groupsdk.testing.simulation.broker_process import BrokerProcess
from groupsdk.testing.simulation.timeline import Timeline
from groupsdk.types import Generation, OffsetAndMetadata
from groupsdk.wire.messages import offsets as messages
from groupsdk.wire.messages.transactions import (
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from groupsdk.wire.schema import Request, Response


TopicPartition = tuple[str, int]
"""A partition, by the name of its topic."""


def commit_request(
    group_id: str,
    generation: Generation,
    instance_id: str | None,
    offsets: Mapping[TopicPartition, int],
) -> messages.OffsetCommitRequest:
    """Ask to commit offsets by partition, as a member of a generation."""
    return messages.OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation.generation_id,
        member_id=generation.member_id,
        group_instance_id=instance_id,
        topics=tuple(
            messages.OffsetCommitRequestTopic(
                topic,
                partitions=tuple(
                    messages.OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offsets[topic, partition],
                        committed_metadata=f"{generation.generation_id}",
                    )
                    for partition in partitions
                ),
            )
            for topic, partitions in by_topic(offsets).items()
        ),
    )


def fetch_request(group_id: str, places: Iterable[TopicPartition]) -> messages.OffsetFetchRequest:
    """Ask for the committed offsets of partitions, those of open transactions not."""
    topics = tuple(
        messages.OffsetFetchRequestTopics(topic, partition_indexes=partitions)
        for topic, partitions in by_topic(places).items()
    )
    return messages.OffsetFetchRequest(
        groups=(messages.OffsetFetchRequestGroup(group_id, topics=topics),), require_stable=True
    )


def by_topic(places: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    """Group partitions by topic, all sorted."""
    partitions: dict[str, tuple[int, ...]] = {}
    for topic, index in sorted(places):
        partitions[topic] = (*partitions.get(topic, ()), index)
    return partitions


class CommitStamp(NamedTuple):
    """Who sent a commit, over which connection: what a member's process writes into the metadata of its commits."""

    process: str
    connection: int
    """The so manyth connection of the process: what is sent over one keeps its order, beyond that nothing does."""

    @property
    def metadata(self) -> str:
        return f"{self.process}/{self.connection}"

    @classmethod
    def read(cls, metadata: str) -> "CommitStamp | None":
        """Read it from metadata; None: no member's process has sent the commit."""
        process, found, connection = metadata.partition("/")
        return cls(process, int(connection)) if found else None

    def may_come_after(self, newer: "CommitStamp | None") -> bool:
        """Return whether a commit that its process sent before another one may be read after it."""
        return (
            newer is not None
            and self.process == newer.process
            and self.connection < newer.connection
        )


class Work:
    """The partitions of one process, as of one assignment."""

    def __init__(
        self,
        group_id: str,
        instance_id: str | None,
        random: Random,
        feed: Callable[[CallerRequest], None],
    ) -> None:
        self._group_id = group_id
        self._instance_id = instance_id
        self._random = random
        self._feed = feed
        self._asked = 0
        self._waiting: int | None = None
        self.positions: dict[TopicPartition, int | None] = {}
        """How far each partition is; None: not known yet."""

    def assigned(self, places: Iterable[TopicPartition]) -> None:
        """Begin with the partitions of a new generation."""
        self.positions = dict.fromkeys(places)
        self._waiting = None

    def keep(self, places: Iterable[TopicPartition]) -> None:
        """Go on with these partitions; positions of those that are new have to be read."""
        wanted = sorted(places)
        if any(each not in self.positions for each in wanted):
            self._waiting = None  # an answer about an earlier time with one of these must not count
        self.positions = {each: self.positions.get(each) for each in wanted}

    def step(self, generation: Generation) -> None:
        """Read, or work and commit as a member of a generation, unless an answer is outstanding."""
        if not self.positions or self._waiting is not None:
            return
        unknown = [place for place, position in self.positions.items() if position is None]
        if unknown:
            self._ask(fetch_request(self._group_id, unknown))
        elif self._random.random() < 0.4:
            count = self._random.randrange(1, len(self.positions) + 1)
            done: dict[TopicPartition, int] = {}
            for place in self._random.sample(sorted(self.positions), count):
                done[place] = (self.positions[place] or 0) + 1
            self.positions.update(done)
            self._commit(generation, done)

    def _commit(self, generation: Generation, done: Mapping[TopicPartition, int]) -> None:
        self._ask(commit_request(self._group_id, generation, self._instance_id, done))

    def told(self, caller_request_id: int, answer: Response | GroupSdkError) -> None:
        """Take the answer to a request."""
        if caller_request_id != self._waiting:
            return
        self._waiting = None
        if isinstance(answer, messages.OffsetFetchResponse):
            for group in answer.groups:
                for topic in group.topics:
                    for partition in topic.partitions:
                        place = (topic.name, partition.partition_index)
                        if partition.error_code == 0 and place in self.positions:
                            self.positions[place] = max(partition.committed_offset, 0)
        elif not isinstance(answer, messages.OffsetCommitResponse) or _failed(answer):
            # whether it was taken is not known: what is committed decides
            self.positions = dict.fromkeys(self.positions)

    def _ask(self, request: Any) -> None:
        self._asked += 1
        self._waiting = self._asked
        self._feed(CallerRequest(self._asked, request))


def _failed(answer: messages.OffsetCommitResponse) -> bool:
    return any(partition.error_code for topic in answer.topics for partition in topic.partitions)


class CommitterWork(Work):
    """Commits as `GroupConsumer` does in the background: several at a time, each with the retries of `Committer`."""

    def __init__(
        self,
        group_id: str,
        instance_id: str | None,
        random: Random,
        feed: Callable[[CallerRequest], None],
        snapshot: Callable[[], MemberSnapshot],
        clock: Clock,
    ) -> None:
        super().__init__(group_id, instance_id, random, feed)
        self.snapshot = snapshot
        self._answers: dict[int, Future[Response]] = {}
        calls = CoordinatorCalls(
            self._ask_coordinator, clock, ExponentialBackoff(100, 1_000), random
        )
        self._committer = Committer(calls, self, clock, lambda: False)

    def give_up_join(self) -> None:
        """Abandon a parked join: only a consumer that closes does so."""

    @override
    def step(self, generation: Generation) -> None:
        self._committer.settle()
        super().step(generation)

    @override
    def told(self, caller_request_id: int, answer: Response | GroupSdkError) -> None:
        asked = self._answers.pop(caller_request_id, None)
        if asked is None:
            super().told(caller_request_id, answer)
        elif isinstance(answer, GroupSdkError):
            asked.set_exception(answer)
        else:
            asked.set_result(answer)

    @override
    def _commit(self, generation: Generation, done: Mapping[tuple[str, int], int]) -> None:
        offsets = {
            assignment.TopicPartition(*place): OffsetAndMetadata(offset)
            for place, offset in done.items()
        }
        try:
            self._committer.commit_async(offsets, lambda _error, _offsets: None)
        except GroupSdkError:
            return  # the next commit has what this one would have had

    def _ask_coordinator(self, request: CoordinatorRequest) -> Future[Response]:
        self._asked += 1
        answer = self._answers[self._asked] = Future()
        self._feed(CallerRequest(self._asked, request))
        return answer


class TransactionalWork(Work):
    """Commits in transactions of a producer, with the generation of the moment at which each began."""

    def __init__(
        self,
        group_id: str,
        instance_id: str | None,
        random: Random,
        feed: Callable[[CallerRequest], None],
        producer: "Producer",
    ) -> None:
        super().__init__(group_id, instance_id, random, feed)
        self._producer = producer

    @override
    def step(self, generation: Generation) -> None:
        if not self._producer.is_busy:
            super().step(generation)

    @override
    def _commit(self, generation: Generation, done: Mapping[tuple[str, int], int]) -> None:
        self._producer.commit(self._group_id, generation, self._instance_id, done, self._ended)

    def _ended(self, committed: bool) -> None:
        if not committed:
            self.positions = dict.fromkeys(self.positions)  # what is committed decides


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
                        TxnOffsetCommitRequestPartition(partition, offsets[topic, partition])
                        for partition in partitions
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
                    ErrorCode.of(partition.error_code)
                    for topic in answer.topics
                    for partition in topic.partitions
                }
            if codes == {ErrorCode.NONE}:
                committed = self._random.random() < 0.85
                pause_ms = self._random.choice((0, 0, 20, 500, 3_000))
                self._later(pause_ms, lambda: self._finish(producer, committed=committed))
            elif codes & _FENCED:
                self._finish(producer, committed=False)
            elif any(_is_passing(code) for code in codes):
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
