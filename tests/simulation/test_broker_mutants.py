"""Prove that the simulation can fail: break the broker on purpose, and see that some seed notices.

Each mutant undoes one thing that a group's safety rests on. One that lived would show a hole in the
faults or in the checks.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from groupsdk.broker.coordinator.classic.group import ClassicGroup
from groupsdk.broker.coordinator.classic.member_requests import MemberRequests
from groupsdk.broker.coordinator.classic.rebalance import Rebalances
from groupsdk.broker.coordinator.classic.registry import GroupRegistry
from groupsdk.broker.coordinator.group.shard import GroupCoordinatorShard
from groupsdk.broker.coordinator.offsets import commit_validation
from groupsdk.broker.coordinator.offsets.commit_validation import CommitRequest
from groupsdk.broker.coordinator.offsets.offset_expiration import OffsetExpiration
from groupsdk.broker.coordinator.offsets.offset_metadata_manager import OffsetMetadataManager
from groupsdk.broker.coordinator.runtime.contract import NOTHING, Reply, Result
from groupsdk.broker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from groupsdk.broker.coordinator.runtime.deadlines import DeadlineBuckets
from groupsdk.broker.coordinator.runtime.result_builder import ResultBuilder
from groupsdk.broker.coordinators import PartitionCoordinatorLog
from groupsdk.broker.log.cleaner import Cleaner
from groupsdk.broker.log.partition_log import PartitionLog
from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.groups import HeartbeatResponse
from groupsdk.wire.messages.offsets import OffsetCommitRequest
from tests.simulation.checks import check_noticed, play


SEEDS = 2_500
Patch = pytest.MonkeyPatch
pytestmark = pytest.mark.usefixtures("quiet")
Mutant = Callable[[Patch], None]


def takes_every_commit(patch: Patch) -> None:
    validate = commit_validation._of_classic_group

    def lenient(group: ClassicGroup, request: CommitRequest) -> ErrorCode:
        if request.member_id in group.members:
            return ErrorCode.NONE
        return validate(group, request)

    patch.setattr(commit_validation, "_of_classic_group", lenient)


def takes_commits_of_older_generations(patch: Patch) -> None:
    validate = commit_validation._of_classic_group

    def lenient(group: ClassicGroup, request: CommitRequest) -> ErrorCode:
        if request.generation_id_or_member_epoch >= 0:
            request = replace(request, generation_id_or_member_epoch=group.generation_id)
        return validate(group, request)

    patch.setattr(commit_validation, "_of_classic_group", lenient)


def takes_commits_from_outside_while_there_are_members(patch: Patch) -> None:
    commit = OffsetMetadataManager.commit

    def as_a_member(
        commits: OffsetMetadataManager, request: OffsetCommitRequest, *rest: Any
    ) -> Result:
        group = commits._registry.groups.get(request.group_id)
        if request.generation_id_or_member_epoch < 0 and group is not None and group.members:
            member = next(iter(group.members.values()))
            request = replace(
                request,
                generation_id_or_member_epoch=group.generation_id,
                member_id=member.member_id,
                group_instance_id=member.instance_id,
            )
        return commit(commits, request, *rest)

    patch.setattr(OffsetMetadataManager, "commit", as_a_member)


def acknowledges_what_it_could_not_write(patch: Patch) -> None:
    patch.setattr(ResultBuilder, "promise", ResultBuilder.reply)


def answers_before_it_writes(patch: Patch) -> None:
    do = CoordinatorRuntime._do

    def eager(runtime: CoordinatorRuntime, result: Result, now_ms: int) -> bool:
        if result is NOTHING:
            return do(runtime, result, now_ms)
        for reply in result.replies:
            runtime._answer(reply.token, reply.response)
        return do(runtime, result._replace(replies=()), now_ms)

    patch.setattr(CoordinatorRuntime, "_do", eager)


def writes_no_commits_that_it_takes_together(patch: Patch) -> None:
    together = CoordinatorRuntime._did_together

    def unwritten(*given: Any) -> bool:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(PartitionCoordinatorLog, "append", lambda *_: None)
            return together(*given)

    patch.setattr(CoordinatorRuntime, "_did_together", unwritten)


def syncs_nothing(patch: Patch) -> None:
    def sync_written(log: PartitionLog, _segment: object, end: int) -> None:
        log.recovery_point = end

    patch.setattr(PartitionLog, "_sync_written", sync_written)


def loads_all_but_the_last_record(patch: Patch) -> None:
    replay = PartitionCoordinatorLog.replay

    def shortened(log: PartitionCoordinatorLog) -> Iterator[Any]:
        return iter(list(replay(log))[:-1])

    patch.setattr(PartitionCoordinatorLog, "replay", shortened)


def compacts_the_newest_away(patch: Patch) -> None:
    keeps = Cleaner._keeps
    patch.setattr(Cleaner, "_keeps", lambda *given: not keeps(*given))


def does_not_count_generations(patch: Patch) -> None:
    begin = ClassicGroup.begin_generation

    def stay(group: ClassicGroup, now_ms: int) -> None:
        if group.generation_id:
            group.generation_id -= 1
        begin(group, now_ms)

    patch.setattr(ClassicGroup, "begin_generation", stay)


def waits_for_nobody(patch: Patch) -> None:
    patch.setattr(ClassicGroup, "has_all_members_joined", property(lambda _: True))


def waits_for_ever(patch: Patch) -> None:
    patch.setattr(Rebalances, "phase_ended", lambda *_: None)


def hears_no_heartbeat(patch: Patch) -> None:
    def deaf(_: MemberRequests, __: object, context: Any, ___: int) -> Result:
        return Result((), (Reply(context.token, HeartbeatResponse()),))

    patch.setattr(MemberRequests, "heartbeat", deaf)


def expels_nobody(patch: Patch) -> None:
    patch.setattr(Rebalances, "session_ended", lambda *_: None)


def expels_by_the_first_deadline(patch: Patch) -> None:
    """Putting a deadline off is forgotten."""
    put = DeadlineBuckets.set

    def once(buckets: DeadlineBuckets[Any], holder: Any, deadline_ms: int) -> None:
        put(buckets, holder, min(deadline_ms, holder.deadline_ms))

    patch.setattr(DeadlineBuckets, "set", once)


def expels_whoever_was_answered_just_now(patch: Patch) -> None:
    """The mistake that the simulation found in the broker."""
    end = Rebalances.session_ended

    def ended(rebalances: Rebalances, session: Any, builder: ResultBuilder) -> None:
        session.deadline_ms = 2**63 - 1
        end(rebalances, session, builder)

    patch.setattr(Rebalances, "session_ended", ended)


def gives_no_session_after_loading(patch: Patch) -> None:
    loaded = GroupCoordinatorShard.loaded

    def without(shard: GroupCoordinatorShard, now_ms: int) -> Result:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(GroupRegistry, "renew_session", lambda *_: None)
            return loaded(shard, now_ms)

    patch.setattr(GroupCoordinatorShard, "loaded", without)


def forgets_who_waits_when_it_moves(patch: Patch) -> None:
    patch.setattr(GroupCoordinatorShard, "unload", lambda *_: NOTHING)


def drops_offsets_of_a_living_group(patch: Patch) -> None:
    patch.setattr(OffsetExpiration, "_is_expired", lambda *_: True)


MUTANTS: list[Mutant] = [
    takes_every_commit,
    takes_commits_of_older_generations,
    takes_commits_from_outside_while_there_are_members,
    acknowledges_what_it_could_not_write,
    answers_before_it_writes,
    writes_no_commits_that_it_takes_together,
    syncs_nothing,
    loads_all_but_the_last_record,
    compacts_the_newest_away,
    does_not_count_generations,
    waits_for_nobody,
    waits_for_ever,
    hears_no_heartbeat,
    expels_nobody,
    expels_by_the_first_deadline,
    expels_whoever_was_answered_just_now,
    gives_no_session_after_loading,
    forgets_who_waits_when_it_moves,
    drops_offsets_of_a_living_group,
]


# Where few runs notice a mutant, shortly before the first that does.
FIRST_SEEDS: dict[Mutant, int] = {expels_whoever_was_answered_just_now: 960}


@pytest.mark.timeout(180)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_broker_mutant_is_noticed_by_the_simulation(mutant: Mutant, monkeypatch: Patch) -> None:
    mutant(monkeypatch)
    first = FIRST_SEEDS.get(mutant, 0)
    check_noticed(play, range(first, first + SEEDS))
