"""What a member of the consumer protocol survives, on the embedded broker with everything that goes wrong there."""

from collections.abc import Iterator
from typing import Any

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.drivers.threads.member import GroupMember
from groupsdk.error_code import ErrorCode
from groupsdk.settings.config import ConsumerMemberConfig
from tests.drivers.threads.owning import Callbacks
from tests.support.cases import each_case
from tests.support.workers import eventually


QUICK: dict[str, Any] = {
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.session.timeout.ms": 30_000,
    "group.consumer.assignment.interval.ms": 0,
}
ALL = {0, 1, 2, 3}


@pytest.fixture(scope="module")
def shared_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(QUICK, nodes=3) as running:
        yield running


@pytest.fixture
def broker(shared_broker: EmbeddedBroker) -> Iterator[EmbeddedBroker]:
    shared_broker.faults.clear()
    yield shared_broker
    shared_broker.faults.clear()


@pytest.fixture
def topic(broker: EmbeddedBroker, group_id: str) -> str:
    broker.create_topic(f"t-{group_id}", 4)
    return f"t-{group_id}"


class Pair:
    """Two members that are driven in turn."""

    def __init__(self, broker: EmbeddedBroker, group_id: str, topic: str, **settings: Any) -> None:
        self.callbacks = [Callbacks(topic), Callbacks(topic)]
        config = ConsumerMemberConfig(
            bootstrap_servers=broker.bootstrap_servers,
            group_id=group_id,
            request_timeout_ms=1_000,
            **settings,
        )
        self.members = [GroupMember(each, config) for each in self.callbacks]

    def __enter__(self) -> "Pair":
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.members:
            each.close()

    def settle(self) -> None:
        """Drive both until each has half, and knows that."""

        def settled() -> bool:
            for each in self.members:
                each.poll(0.01)
            first, second = (each.owned for each in self.callbacks)
            idle = all(not each.snapshot().rejoin_pending for each in self.members)
            return len(first) == len(second) == 2 and first | second == ALL and idle

        eventually(settled, lambda: [each.owned for each in self.callbacks])


@pytest.mark.timeout(300)
def test_a_connection_that_is_cut_at_any_request_or_answer_costs_no_partition(
    broker: EmbeddedBroker, group_id: str, topic: str, subtests: pytest.Subtests
) -> None:
    """Each heartbeat of a rebalance in turn, before and after the broker has acted on it."""

    @each_case("handle", (False, True))
    @each_case("number", range(8))
    def cut(handle: bool, number: int) -> None:
        name = f"{group_id}-{number}-{handle}"
        seen = 0

        def its_turn(request: Any) -> bool:
            nonlocal seen
            seen += request.group_id == name
            return bool(request.group_id == name and seen == number + 1)

        broker.faults.disconnect("ConsumerGroupHeartbeat", match=its_turn, handle=handle, times=1)
        with Pair(broker, name, topic) as pair:
            pair.settle()
        broker.faults.clear()
        assert seen > number, "the fault was never met"
        assert [each.losses for each in pair.callbacks] == [0, 0]

    cut(subtests=subtests)


@pytest.mark.timeout(300)
def test_an_answer_that_never_comes_is_waited_for_no_longer_than_request_timeout_ms(
    broker: EmbeddedBroker, group_id: str, topic: str
) -> None:
    for handle in (False, True):
        name = f"{group_id}-{handle}"
        broker.faults.drop(
            "ConsumerGroupHeartbeat",
            match=lambda request, name=name: request.group_id == name,  # type: ignore[misc]
            handle=handle,
            times=3,
        )
        with Pair(broker, name, topic) as pair:
            pair.settle()


PASSING = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
)


@pytest.mark.timeout(300)
def test_errors_that_pass_are_survived_wherever_they_come(
    broker: EmbeddedBroker, group_id: str, topic: str, subtests: pytest.Subtests
) -> None:
    @each_case("code", PASSING)
    @each_case("number", (0, 1, 3, 5))
    def answered(code: ErrorCode, number: int) -> None:
        name = f"{group_id}-{number}-{code.name}"
        seen = 0

        def its_turn(request: Any) -> bool:
            nonlocal seen
            seen += request.group_id == name
            return bool(request.group_id == name and seen == number + 1)

        broker.faults.answer("ConsumerGroupHeartbeat", code, match=its_turn)
        with Pair(broker, name, topic) as pair:
            pair.settle()
        broker.faults.clear()
        assert seen > number, "the fault was never met"

    answered(subtests=subtests)


@pytest.mark.timeout(300)
def test_questions_beside_the_membership_that_fail_do_not_hold_it_up(
    broker: EmbeddedBroker, group_id: str, topic: str
) -> None:
    """The names of topics, and how long a session lasts."""
    broker.faults.answer("Metadata", ErrorCode.UNKNOWN_SERVER_ERROR, times=3, match=_by_id)
    broker.faults.answer("DescribeConfigs", ErrorCode.GROUP_AUTHORIZATION_FAILED, times=None)
    with Pair(broker, group_id, topic) as pair:
        pair.settle()
        for each in pair.members:
            until_ms = each.held_until_ms()
            assert until_ms is not None


@pytest.mark.timeout(300)
def test_a_coordinator_that_moves_or_restarts_costs_no_partition(
    broker: EmbeddedBroker, group_id: str, topic: str
) -> None:
    with Pair(broker, group_id, topic) as pair:
        pair.settle()
        before = [set(each.owned) for each in pair.callbacks]
        for step in range(4):
            if step == 3:
                broker.restart()
            else:
                broker.move_coordinator(group_id, broker.coordinator(group_id) % 3 + 1)
            beats = [each.metrics()["heartbeat-total"] for each in pair.members]

            def beaten(beats: list[float] = beats) -> bool:
                for each in pair.members:
                    each.poll(0.01)
                now = [each.metrics()["heartbeat-total"] for each in pair.members]
                return all(b > a + 2 for a, b in zip(beats, now, strict=True))

            eventually(beaten)
            pair.settle()
        assert [each.owned for each in pair.callbacks] == before
        assert [each.losses for each in pair.callbacks] == [0, 0]


@pytest.mark.timeout(300)
def test_belief_ends_before_the_group_goes_on_without_a_member_that_is_cut_off(
    broker: EmbeddedBroker, group_id: str, topic: str
) -> None:
    """The other one may take the partitions only after the first one's own clock has ended its belief."""
    with Pair(broker, group_id, topic) as pair:
        pair.settle()
        first, second = pair.members
        cut_off = first.member_id()
        assert first.snapshot().holds
        broker.faults.disconnect(
            "ConsumerGroupHeartbeat",
            times=None,
            match=lambda request: request.member_id == cut_off,
        )

        def taken() -> bool:
            second.poll(0.01)
            first.poll(0)
            held = first.snapshot().holds
            all_taken = pair.callbacks[1].owned == ALL
            assert not (held and all_taken), "both believe that they own a partition"
            return all_taken

        eventually(taken)
        broker.faults.clear()
        pair.settle()
        assert pair.callbacks[0].losses == 1


def _by_id(request: Any) -> bool:
    return bool(request.topics) and request.topics[0].name is None
