"""A generation that a coordinator did not write before it failed: its number is given again."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.broker.clients import Client, connect
from tests.support.brokers import QUICK_RESTART, running_again
from tests.support.consumers import PACED_BY_TESTS
from tests.support.workers import eventually


Served = EmbeddedBroker | LocalKafka
_PROTOCOL = "shared"
_TYPE = "work"


@pytest.fixture
def killable(kafka_installed: None) -> Iterator[LocalKafka]:
    with LocalKafka(properties=PACED_BY_TESTS | QUICK_RESTART) as kafka, running_again(kafka):
        yield kafka


def join(group_id: str, member_id: str, instance_id: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocols=(JoinGroupRequestProtocol(_PROTOCOL, b""),),
        protocol_type=_TYPE,
    )


def let_in(client: Client, group_id: str, instance_id: str | None = None) -> JoinGroupResponse:
    """Joins without a member id, as soon as there is a coordinator: a dynamic member is only given one."""
    answers: list[JoinGroupResponse] = []

    def answered() -> bool:
        answers.append(client.ask(join(group_id, "", instance_id)))
        return answers[-1].member_id != ""

    eventually(answered, lambda: str(answers), 60.0)
    return answers[-1]


def sync(
    client: Client, group_id: str, member_id: str, generation: int, plan: dict[str, bytes]
) -> SyncGroupResponse:
    return client.ask(
        SyncGroupRequest(
            group_id,
            generation,
            member_id,
            protocol_name=_PROTOCOL,
            assignments=tuple(SyncGroupRequestAssignment(*each) for each in plan.items()),
            protocol_type=_TYPE,
        )
    )


def joined_by(
    leader: Client, leader_id: str, other: Client, group_id: str
) -> tuple[JoinGroupResponse, str]:
    """Lets a new member come to the group of a static leader; returns what the leader is told, and the member's id."""
    member_id = let_in(other, group_id).member_id
    wish, its_wish = join(group_id, member_id), join(group_id, leader_id, "leader")
    sent = other.send(wish)
    answer = leader.answer(its_wish, leader.send(its_wish))
    assert other.answer(wish, sent).generation_id == answer.generation_id
    return answer, member_id


class Course(NamedTuple):
    """The generation before and after the coordinator failed, and what each was assigned in it."""

    generations: tuple[int, int]
    leader: str
    late: tuple[int, bytes]
    right: tuple[int, bytes]
    other: tuple[int, bytes]


def course(broker: Served, restart: Callable[[], None], group_id: str) -> Course:
    with connect(broker) as leader, connect(broker) as other:
        first = let_in(leader, group_id, "leader")
        leader_id = first.member_id
        plan = {leader_id: b"alone"}
        assert sync(leader, group_id, leader_id, first.generation_id, plan).error_code == 0
        lost, lost_id = joined_by(leader, leader_id, other, group_id)
    restart()
    with connect(broker) as leader, connect(broker) as other:
        again, other_id = joined_by(leader, leader_id, other, group_id)
        number = again.generation_id
        late = {leader_id: b"late", lost_id: b"lost"}
        answers = [
            sync(leader, group_id, leader_id, number, late),
            sync(leader, group_id, leader_id, number, {leader_id: b"right", other_id: b"right"}),
            sync(other, group_id, other_id, number, {}),
        ]
        found = [(each.error_code, each.assignment) for each in answers]
        is_leader = "leader" if again.leader == leader_id else "another"
        return Course((lost.generation_id, number), is_leader, *found)


def test_a_late_plan_of_a_generation_that_was_lost_is_taken_for_the_one_of_its_number(
    killable: LocalKafka, group_id: str
) -> None:
    def kill() -> None:
        killable.kill()
        killable.start()

    with EmbeddedBroker(PACED_BY_TESTS) as embedded:

        def stop() -> None:
            embedded.stop()
            embedded.start()

        ours = course(embedded, stop, group_id)
    assert ours == course(killable, kill, group_id)
    assert ours == Course((2, 2), "leader", (0, b"late"), (0, b"late"), (0, b""))
