"""Hold which assignor wins, where as many members ask for one as for another, beside a real Kafka."""

from contextlib import ExitStack

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.group_admin import ConsumerGroupDescribeRequest
from tests.broker.coordinator.consumer.members import Served, WireMember, connected
from tests.support.workers import eventually


_COURSES = (
    ("range", "uniform"),
    ("uniform", "range"),
    ("range", "uniform", "range", "-0"),
    ("uniform", "range", "uniform", "-0"),
    ("uniform", "range", "-0"),
    ("range", None, None),
    (None, "range", "range", "uniform", "uniform"),
)
"""The assignors that members ask for in turn; `-0`: the first of them leaves."""


def winners(broker: Served, group_id: str, course: tuple[str | None, ...]) -> list[str]:
    """Returns which assignor the group has after each step."""
    found = []
    with ExitStack() as stack:
        client = connected(broker)
        stack.callback(client.socket.close)
        members: list[WireMember] = []
        for number, step in enumerate(course):
            if step == "-0":
                assert members.pop(0).heartbeat(-1).error_code == 0
            else:
                made = WireMember(broker, group_id, f"m{number}", server_assignor=step)
                members.append(stack.enter_context(made))
                eventually(lambda: members[-1].heartbeat().error_code == 0, "not let in", 60.0)
            answer = client.ask(ConsumerGroupDescribeRequest((group_id,)))
            found.append(answer.groups[0].assignor_name)
        for each in members:
            each.heartbeat(-1)
    return found


def test_of_as_many_votes_the_same_assignor_wins(kafka: LocalKafka, group_id: str) -> None:
    with EmbeddedBroker(topics={"t": 4}) as embedded:
        for number, course in enumerate(_COURSES):
            names = [winners(each, f"{group_id}-{number}", course) for each in (embedded, kafka)]
            assert names[0] == names[1], course
