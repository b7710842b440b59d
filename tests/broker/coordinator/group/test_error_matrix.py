"""Kafka's error matrix: what each request is answered in each state of the group."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from groupsdk.error_code import ErrorCode
from groupsdk.wire.messages.group_admin import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from groupsdk.wire.messages.groups import DescribeGroupsRequest, LeaveGroupRequest, MemberIdentity
from groupsdk.wire.messages.offsets import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.broker.coordinator.group.driving import GROUP, QUICK, Driver, protocols
from tests.support.cases import each_case


STATES = ("none", "Empty", "Preparing", "Completing", "Stable", "Dead")
PARKED = "parked"
Answer = ErrorCode | str | None


@dataclass
class Case:
    """A group in some state: `leader` and `follower` are, or were, its members."""

    driver: Driver
    leader: str = "leader-1"
    follower: str = "follower-1"
    generation_id: int = 1


def case_in(state: str) -> Case:
    driver = Driver(QUICK)
    if state == "none":
        return Case(driver)
    leader, follower = driver.stable(2)
    case = Case(driver, leader, follower, driver.generation)
    if state == "Empty":
        driver.leave(leader, follower)
        case.generation_id = driver.generation
    elif state in ("Preparing", "Completing"):
        again = driver.join(follower, protocols=protocols("even", metadata=b"other"))
        assert driver.waits(again)
    if state == "Completing":
        driver.join(leader)
        case.generation_id = driver.generation
    if state == "Dead":
        driver.deal_with(driver.shard.unload(ErrorCode.NOT_COORDINATOR, driver.now_ms))
    group = driver.view
    assert group.state.value.startswith(state)
    return case


def join(case: Case, member_id: str, **fields: Any) -> Answer:
    token = case.driver.join(member_id, **fields)
    if case.driver.waits(token):
        return PARKED
    return ErrorCode.of(case.driver.joined(token).error_code)


def sync(case: Case, member_id: str, generation_id: int) -> Answer:
    token = case.driver.sync(member_id, generation_id)
    if case.driver.waits(token):
        return PARKED
    return ErrorCode.of(case.driver.synced(token).error_code)


def leave(case: Case, member_id: str) -> Answer:
    request = LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id),))
    answer = case.driver.ask(request)
    if answer.error_code:
        return ErrorCode.of(answer.error_code)
    return ErrorCode.of(answer.members[0].error_code)


def delete_offsets(case: Case) -> Answer:
    topic = OffsetDeleteRequestTopic("t", (OffsetDeleteRequestPartition(0),))
    answer = case.driver.ask(OffsetDeleteRequest(GROUP, (topic,)))
    if answer.error_code:
        return ErrorCode.of(answer.error_code)
    return ErrorCode.of(answer.topics[0].partitions[0].error_code)


def fetch(case: Case) -> Answer:
    """Offset -1 without an error, whatever the state."""
    topic = OffsetFetchRequestTopic("t", (0,))
    answer = case.driver.ask(OffsetFetchRequest(group_id=GROUP, topics=(topic,)), 7)
    (partition,) = answer.topics[0].partitions
    assert partition.committed_offset == -1
    assert partition.error_code == 0
    return ErrorCode.of(answer.error_code)


def described(case: Case) -> Answer:
    (group,) = case.driver.ask(DescribeGroupsRequest((GROUP,))).groups
    return ErrorCode.of(group.error_code)


E = ErrorCode
OK = E.NONE
DEAD = E.COORDINATOR_NOT_AVAILABLE
UNKNOWN = E.UNKNOWN_MEMBER_ID
BUSY = E.REBALANCE_IN_PROGRESS
ILLEGAL = E.ILLEGAL_GENERATION
NOT_FOUND = E.GROUP_ID_NOT_FOUND
REQUIRED = E.MEMBER_ID_REQUIRED

# The answers in the order of STATES; None where the row does not apply.
MATRIX: dict[str, tuple[Callable[[Case], Answer], tuple[Answer, ...]]] = {
    "join without an id": (
        lambda c: join(c, ""),
        (REQUIRED, REQUIRED, REQUIRED, REQUIRED, REQUIRED, DEAD),
    ),
    "join without an id, version 3": (
        lambda c: join(c, "", version=3),
        (PARKED, PARKED, PARKED, PARKED, PARKED, DEAD),
    ),
    "join with an unknown id": (
        lambda c: join(c, "nobody"),
        (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, DEAD),
    ),
    "join of the leader, nothing changed": (
        lambda c: join(c, c.leader),
        # in Preparing it is the last one to join, and the generation begins
        (UNKNOWN, UNKNOWN, OK, OK, PARKED, DEAD),
    ),
    "join of a follower, nothing changed": (
        lambda c: join(c, c.follower, protocols=current(c)),
        (UNKNOWN, UNKNOWN, PARKED, OK, OK, DEAD),
    ),
    "join of a follower, metadata changed": (
        lambda c: join(c, c.follower, protocols=protocols("even", metadata=b"new")),
        (UNKNOWN, UNKNOWN, PARKED, PARKED, PARKED, DEAD),
    ),
    "join with another protocol type": (
        lambda c: join(c, "", protocol_type="other"),
        (REQUIRED, REQUIRED, *[E.INCONSISTENT_GROUP_PROTOCOL] * 3, DEAD),
    ),
    "join with protocols that nobody has": (
        lambda c: join(c, c.follower, protocols=protocols("odd")),
        (UNKNOWN, UNKNOWN, *[E.INCONSISTENT_GROUP_PROTOCOL] * 3, DEAD),
    ),
    "join without protocols": (
        lambda c: join(c, "", protocols=()),
        (*[E.INCONSISTENT_GROUP_PROTOCOL] * 5, DEAD),
    ),
    "sync": (
        lambda c: sync(c, c.follower, c.generation_id),
        (UNKNOWN, UNKNOWN, BUSY, PARKED, OK, DEAD),
    ),
    "sync of an unknown id": (
        lambda c: sync(c, "nobody", c.generation_id),
        (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, DEAD),
    ),
    "sync of another generation": (
        lambda c: sync(c, c.follower, c.generation_id + 1),
        (UNKNOWN, UNKNOWN, ILLEGAL, ILLEGAL, ILLEGAL, DEAD),
    ),
    "heartbeat": (
        lambda c: c.driver.heartbeat(c.leader, c.generation_id),
        (UNKNOWN, UNKNOWN, BUSY, OK, OK, DEAD),
    ),
    "heartbeat of an unknown id": (
        lambda c: c.driver.heartbeat("nobody", c.generation_id),
        (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, DEAD),
    ),
    "heartbeat of another generation": (
        lambda c: c.driver.heartbeat(c.leader, c.generation_id - 1),
        (UNKNOWN, UNKNOWN, ILLEGAL, ILLEGAL, ILLEGAL, DEAD),
    ),
    "leave": (
        lambda c: leave(c, c.leader),
        (UNKNOWN, UNKNOWN, OK, OK, OK, DEAD),
    ),
    "leave of an unknown id": (
        lambda c: leave(c, "nobody"),
        (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, DEAD),
    ),
    "commit of a member": (
        lambda c: c.driver.commit({0: 5}, c.leader, c.generation_id)[0],
        (NOT_FOUND, UNKNOWN, OK, BUSY, OK, DEAD),
    ),
    "commit of a member, version 8": (
        lambda c: c.driver.commit({0: 5}, c.leader, c.generation_id, version=8)[0],
        (ILLEGAL, UNKNOWN, OK, BUSY, OK, DEAD),
    ),
    "commit of an unknown id": (
        lambda c: c.driver.commit({0: 5}, "nobody", c.generation_id)[0],
        (NOT_FOUND, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, DEAD),
    ),
    "commit of another generation": (
        lambda c: c.driver.commit({0: 5}, c.leader, c.generation_id + 1)[0],
        (NOT_FOUND, UNKNOWN, ILLEGAL, ILLEGAL, ILLEGAL, DEAD),
    ),
    "commit of a member without a generation": (
        lambda c: c.driver.commit({0: 5}, c.leader, -1)[0],
        (OK, OK, ILLEGAL, ILLEGAL, ILLEGAL, DEAD),
    ),
    "commit without a group's membership": (
        lambda c: c.driver.commit({0: 5})[0],
        (OK, OK, UNKNOWN, UNKNOWN, UNKNOWN, DEAD),
    ),
    "transactional commit without a group's membership": (
        lambda c: c.driver.commit_in_transaction({0: 5})[0],
        (OK, OK, OK, OK, OK, DEAD),
    ),
    "transactional commit of a member": (
        lambda c: c.driver.commit_in_transaction(
            {0: 5}, member_id=c.leader, generation_id_or_member_epoch=c.generation_id
        )[0],
        (ILLEGAL, UNKNOWN, OK, OK, OK, DEAD),
    ),
    "transactional commit of another generation": (
        lambda c: c.driver.commit_in_transaction(
            {0: 5}, member_id=c.leader, generation_id_or_member_epoch=c.generation_id + 1
        )[0],
        (ILLEGAL, UNKNOWN, ILLEGAL, ILLEGAL, ILLEGAL, DEAD),
    ),
    "fetch": (fetch, (OK, OK, OK, OK, OK, OK)),
    "delete the group": (
        lambda c: c.driver.delete(),
        (NOT_FOUND, OK, *[E.NON_EMPTY_GROUP] * 3, NOT_FOUND),
    ),
    "delete offsets": (
        delete_offsets,
        (NOT_FOUND, OK, *[E.NON_EMPTY_GROUP] * 3, NOT_FOUND),
    ),
    "describe": (described, (NOT_FOUND, OK, OK, OK, OK, OK)),
}


def current(case: Case) -> object:
    """What the follower offers at present."""
    group = case.driver.shard.group(GROUP)
    member = None if group is None else group.members.get(case.follower)
    return protocols("even", metadata=b"m" if member is None else member.protocols["even"])


@each_case("state", STATES)
@pytest.mark.parametrize("row", MATRIX)
def test_each_request_is_answered_as_kafka_answers_it(row: str, state: str) -> None:
    act, expected = MATRIX[row]
    case = case_in(state)

    assert act(case) == expected[STATES.index(state)]


@pytest.mark.parametrize("state", ["Preparing", "Completing", "Stable"])
def test_a_static_member_of_the_wrong_id_is_fenced_before_its_generation_is_looked_at(
    driver: Driver, state: str
) -> None:
    token = driver.join(group_instance_id="i")
    driver.pass_ms(0)
    member = driver.joined(token).member_id
    if state != "Completing":
        driver.sync(member, 1, group_instance_id="i")
    if state == "Preparing":
        driver.join(driver.take_id())
    assert driver.state.startswith(state)

    case = Case(driver, member, member)
    fenced: dict[str, Any] = {"group_instance_id": "i"}
    unknown: dict[str, Any] = {"group_instance_id": "j"}
    assert driver.heartbeat("other", 9, **fenced) is E.FENCED_INSTANCE_ID
    assert driver.heartbeat(member, 1, **unknown) is UNKNOWN
    assert driver.heartbeat("other", 9) is UNKNOWN
    assert join(case, "other", **fenced) is E.FENCED_INSTANCE_ID
    assert join(case, member, **unknown) is UNKNOWN
    assert driver.leave("other", **fenced) == [E.FENCED_INSTANCE_ID]
    assert driver.commit({0: 1}, "other", 9, **fenced) == [E.FENCED_INSTANCE_ID]
    told = driver.synced(driver.sync("other", 9, **fenced))
    assert told.error_code == E.FENCED_INSTANCE_ID
