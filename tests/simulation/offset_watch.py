"""Check the commits and fetches of a consumer group: who may commit, what is stored, and what is served."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from groupsdk.broker.coordinator.runtime.contract import ProducerStamp
from groupsdk.error_code import ErrorCode
from groupsdk.testing.simulation.work import CommitStamp, TopicPartition
from groupsdk.wire.coordinator_records.offset_commit import OffsetCommitValue
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from groupsdk.wire.messages.transactions import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from tests.simulation.stored_offsets import StoredOffsets


if TYPE_CHECKING:
    from tests.simulation.consumer_watch import ConsumerWatch
    from tests.simulation.watched_consumers import ConsumerSimulation


_OPEN_AT_MOST_MS: Final = 60_000
"""How long offsets may wait for the end of a transaction, which times out long before."""


class OffsetWatch:
    """An observer of the offsets of one group."""

    def __init__(self, world: "ConsumerSimulation", group_id: str, group: "ConsumerWatch") -> None:
        self.stored = StoredOffsets()
        """What the log has."""
        self.commits = 0
        """How many commits were acknowledged, those of transactions among them."""
        self.transactions = 0
        """How many transactions were committed that had offsets of the group."""
        self.overtaken = 0
        """How many commits set an offset back that may: sent before a later one of the same process, or `overlook`ed."""
        self._world = world
        self._group_id = group_id
        self._group = group
        self._overtaken: dict[TopicPartition, int] = {}
        """What was set back so by the last record of a partition: its own answer may be sent only after that."""
        self._written: dict[TopicPartition, set[int]] = {}
        self._written_ms = 0
        """Commits that waited for each other are one batch, and answered when the last of them is in the log."""
        self._may_go_back: set[TopicPartition] = set()
        """Partitions whose offset a tool has set, or that expired."""
        self._overlooked: set[tuple[str, TopicPartition]] = set()
        self._deleted: set[str] = set()
        """Topics that were deleted: their offsets go."""

    def topic_deleted(self, name: str) -> None:
        """Take note that the offsets of a topic go."""
        self._deleted.add(name)

    def overlook(self, process: str, places: Iterable[TopicPartition]) -> None:
        """Take note that the coordinator gives others what a process has yet to give up, and takes its commits until then."""
        self._overlooked.update((process, each) for each in places)

    def load(self) -> dict[TopicPartition, int]:
        """Forget what was read, as the log is read again from its start; return what was stable."""
        stable, self.stored = self.stored.stable, StoredOffsets()
        return stable

    def check_loaded(self, before: Mapping[TopicPartition, int]) -> None:
        """Check that all that was acknowledged was loaded (invariant 13)."""
        now = self.stored.stable
        for place, offset in before.items():
            if now.get(place, -1) < offset and place not in self._may_go_back:
                self._world.fail(13, f"{place} is at {now.get(place)}, acknowledged was {offset}")

    def took(
        self, place: TopicPartition, value: object, producer: ProducerStamp | None, *, check: bool
    ) -> None:
        """Take a record in; no commit sets an offset back, and none goes that is needed (invariants 3 and 16).

        Kafka orders the commits of one connection, and fences those of another membership. A process that gave a
        connection up may find that the broker reads its last commits after those of the next one: they set back
        what the process itself has committed, and nobody else's work.
        """
        if not isinstance(value, OffsetCommitValue):
            self._took_tombstone(place, check=check)
            return
        stamp = CommitStamp.read(value.metadata)
        if producer is None:
            self._check_progress(place, value.offset, check=check, stamp=stamp)
        if self._written_ms != self._world.now_ms():
            self._written_ms, self._written = self._world.now_ms(), {}
        self._written.setdefault(place, set()).add(value.offset)
        producer_id = None if producer is None else producer.producer_id
        self.stored.store(place, value.offset, stamp, producer_id, self._world.now_ms())

    def ended(self, producer: ProducerStamp, *, committed: bool, check: bool) -> None:
        """Take the end of a transaction in."""
        if producer.producer_id not in self.stored.pending:
            return
        before = dict(self.stored.stable)
        left = self.stored.end(producer.producer_id, committed=committed)
        if check:
            what = "committed" if committed else "aborted"
            self._world.note(f"group: a transaction of {producer.producer_id} is {what}: {left}")
            self.transactions += committed
        for place, offset in left.items():
            self._check_progress(place, offset, check=check, before=before.get(place))

    def _took_tombstone(self, place: TopicPartition, *, check: bool) -> None:
        self.stored.remove(place)
        self._may_go_back.add(place)
        if (
            check
            and place[0] not in self._deleted
            and any(place[0] in member.topics for member in self._group.members.values())
        ):
            self._world.fail(16, f"the offset of {place} is dropped while it is subscribed to")

    def _check_progress(
        self,
        place: TopicPartition,
        offset: int,
        *,
        check: bool,
        before: int | None = None,
        stamp: CommitStamp | None = None,
    ) -> None:
        self._overtaken.pop(place, None)
        if before is None:
            before = self.stored.stable.get(place)
        if (
            check
            and before is not None
            and offset < before
            and self._group.ids
            and place not in self._may_go_back
        ):
            newer = self.stored.stamps.get(place)
            is_overlooked = stamp is not None and (stamp.process, place) in self._overlooked
            if stamp is None or not (is_overlooked or stamp.may_come_after(newer)):
                self._world.fail(
                    3, f"{place} goes back from {before} of {newer} to {offset} of {stamp}"
                )
            self._world.note(f"group: {place} goes back from {before} to {offset}, sent before")
            self.overtaken += 1
            self._overtaken[place] = before
        self._may_go_back.discard(place)

    def committed(self, request: OffsetCommitRequest, answer: OffsetCommitResponse) -> None:
        """Check the fence (invariants 3 and 14)."""
        member_id, epoch = request.member_id, request.generation_id_or_member_epoch
        taken = self._taken(request, answer, "commit")
        for place, offset in taken.items():
            found = self.stored.stable.get(place)
            at_once = self._written_ms == self._world.now_ms() and offset in self._written.get(
                place, ()
            )
            if not at_once and offset not in (found, self._overtaken.get(place)):
                self._world.fail(8, f"acknowledged {place}={offset}, the log has {found}")
        if not taken:
            return
        if epoch < 0:
            if self._group.ids:
                self._world.fail(14, f"took a commit of a tool while there are {self._group.ids}")
            self._may_go_back.update(taken)
            return
        self._check_fence(member_id, epoch, taken, "a commit")
        # by its name alone, Kafka takes an offset of a topic that is gone for one of the topic that has the name now
        self._may_go_back.update(
            each for each in taken if self._group.holds_former(member_id, each)
        )

    def committed_in_transaction(
        self, request: TxnOffsetCommitRequest, answer: TxnOffsetCommitResponse
    ) -> None:
        """Check the fence of a transaction's offsets (invariants 8 and 14)."""
        member_id, epoch = request.member_id, request.generation_id_or_member_epoch
        taken = self._taken(request, answer, "transactional commit")
        pending = self.stored.pending.get(request.producer_id, {})
        for place, offset in taken.items():
            found = pending.get(place)
            if found is None or found.offset != offset:
                self._world.fail(8, f"acknowledged {place}={offset}, the transaction has {found}")
        if taken and (epoch >= 0 or member_id):
            self._check_fence(member_id, epoch, taken, "a transactional commit")

    def _taken(
        self,
        request: OffsetCommitRequest | TxnOffsetCommitRequest,
        answer: OffsetCommitResponse | TxnOffsetCommitResponse,
        what: str,
    ) -> dict[TopicPartition, int]:
        codes = {
            (topic.name, partition.partition_index): partition.error_code
            for topic in answer.topics
            for partition in topic.partitions
        }
        taken = {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in request.topics
            for partition in topic.partitions
            if codes[topic.name, partition.partition_index] == 0
        }
        who, epoch = request.member_id or "a tool", request.generation_id_or_member_epoch
        if taken:
            self._world.note(f"group: {what} of {who} in {epoch}: {taken}")
            self.commits += 1
        else:
            code = ErrorCode.of(next(iter(codes.values()), 0)).name
            self._world.note(f"group: {what} of {who} in {epoch}: {code}")
        return taken

    def _check_fence(
        self, member_id: str, epoch: int, taken: Mapping[TopicPartition, int], what: str
    ) -> None:
        group = self._group
        if group.takes_commits(member_id, epoch):
            return
        member = group.members.get(member_id)
        if (
            group.generations is None
            and member is not None
            and epoch < member.epoch
            and all(group.was_held(member_id, place, epoch) for place in taken)
        ):
            return
        had = member or (group.generations, group.classic_ids | group.ids)
        self._world.fail(14, f"took {what} of {member_id} in {epoch}; the log has {had}")

    def fetched(self, request: OffsetFetchRequest, answer: OffsetFetchResponse) -> None:
        """Check that what is served is what the log has (invariants 13 and 15)."""
        unstable = self.stored.unstable if request.require_stable else set()
        for group in answer.groups:
            if group.group_id != self._group_id:
                continue
            for topic in group.topics:
                for each in topic.partitions:
                    place = topic.name, each.partition_index
                    wanted = self.stored.stable.get(place, -1)
                    if place in unstable and each.error_code == 0:
                        self._world.fail(15, f"shows {each}, which a transaction may change")
                    if each.error_code == 0 and each.committed_offset != wanted:
                        self._world.fail(13, f"served {each}, the log has {wanted}")

    def check(self) -> None:
        """Check that no transaction is forgotten (invariant 25)."""
        if not self.stored.since_ms or self._world.is_disturbed:
            return
        now_ms = self._world.now_ms()
        for producer_id, since_ms in self.stored.since_ms.items():
            if now_ms - since_ms > _OPEN_AT_MOST_MS:
                self._world.fail(
                    25, f"the offsets of {producer_id} wait since {now_ms - since_ms} ms"
                )
