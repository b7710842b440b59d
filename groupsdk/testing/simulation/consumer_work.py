"""Commit as consumers do: in the background with retries, or in transactions."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from random import Random

from typing_extensions import override

from groupsdk.assignment import TopicPartition
from groupsdk.clock import Clock
from groupsdk.consumer.calls import CoordinatorCalls
from groupsdk.consumer.commits import Committer
from groupsdk.errors import GroupSdkError
from groupsdk.member.events import CallerRequest
from groupsdk.member.requests import CoordinatorRequest
from groupsdk.settings.backoff import ExponentialBackoff
from groupsdk.snapshot import MemberSnapshot
from groupsdk.testing.simulation.producer import Producer
from groupsdk.testing.simulation.work import Work
from groupsdk.types import Generation, OffsetAndMetadata
from groupsdk.wire.schema import Response


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
            TopicPartition(*place): OffsetAndMetadata(offset) for place, offset in done.items()
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
        producer: Producer,
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
