"""Test assignors of a user's own in a broker that runs: it serves everybody else meanwhile."""

import logging
import threading
from collections.abc import Mapping
from contextlib import ExitStack

import pytest
from pytest_mock import MockerFixture
from typing_extensions import override

from assignors.weighted import WeightedAssignor
from groupsdk.broker.coordinator.consumer.assignment_jobs import (
    AssignmentJob,
    AssignmentJobs,
    Target,
)
from groupsdk.broker.coordinator.consumer.assignors import GroupSpec, UniformAssignor
from groupsdk.broker.coordinator.consumer.topics import Partitions
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.clock import ManualClock
from groupsdk.wire.messages.metadata import MetadataRequest
from tests.broker.clients import connect
from tests.broker.coordinator.consumer.members import WireMember
from tests.support.workers import eventually


# a machine that halts makes no assignor slow
UNHURRIED = {"group.consumer.assignor.timeout.ms": 120_000}


class Held(UniformAssignor):
    """Computes when the test says so."""

    name = "held"

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()

    @override
    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        self.begun.set()
        assert self.go_on.wait(60)
        return super().assign(group)


class Wrong(UniformAssignor):
    """Gives everything to everybody, or raises, as it is told."""

    name = "wrong"
    is_wrong = False

    @override
    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        if not self.is_wrong:
            return super().assign(group)
        topics = group.topics.values()
        return {
            each: {topic.topic_id: tuple(range(topic.partitions)) for topic in topics}
            for each in group.members
        }


def test_the_broker_serves_everybody_else_while_an_assignor_computes() -> None:
    held = Held()
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(UNHURRIED, topics={"t": 4}, assignors=[held]))
        stack.callback(held.go_on.set)
        client = stack.enter_context(connect(broker))
        member = stack.enter_context(WireMember(broker, "g", "m1", server_assignor="held"))
        other = stack.enter_context(WireMember(broker, "h", "m1"))
        assert member.heartbeat().error_code == 0
        assert held.begun.wait(60)
        assert client.ask(MetadataRequest(()), 12).brokers
        other.until(4)
        assert member.heartbeat().member_epoch == 1
        held.go_on.set()
        member.until(4)


def test_no_assignor_of_a_large_group_runs_on_the_loop(mocker: MockerFixture) -> None:
    ran: dict[str, set[str]] = {}
    run = AssignmentJob.run

    def watched(job: AssignmentJob) -> Target:
        ran.setdefault(job.name, set()).add(threading.current_thread().name)
        return run(job)

    mocker.patch.object(AssignmentJob, "run", watched)
    settings = {**UNHURRIED, "group.consumer.assignors": "uniform,range,sticky,weighted"}
    held = Held()
    held.go_on.set()
    with EmbeddedBroker(settings, topics={"t": 10_000}, assignors=[held]) as broker:
        for name in ("uniform", "range", "sticky", "weighted", "held"):
            with WireMember(broker, f"g-{name}", "m1", server_assignor=name) as member:
                member.until(10_000)
            assert ran[name] == {f"groupsdk-assignor-{name}"}


def test_a_slow_assignor_is_told_with_an_error_and_the_last_assignment_stays(
    caplog: pytest.LogCaptureFixture,
) -> None:
    held = Held()
    held.go_on.set()
    with ExitStack() as stack:
        broker = stack.enter_context(
            EmbeddedBroker(
                {"group.consumer.assignor.timeout.ms": 20}, topics={"t": 4}, assignors=[held]
            )
        )
        stack.callback(held.go_on.set)
        members = [
            stack.enter_context(WireMember(broker, "g", each, server_assignor="held"))
            for each in ("m1", "m2")
        ]
        members[0].until(4)
        held.go_on.clear()
        members[1].heartbeat()
        answers = []

        def refused() -> bool:
            answers.append(members[0].heartbeat())
            return answers[-1].error_code == -1

        eventually(refused, "no error", 60.0)
        assert "group.consumer.assignor.timeout.ms=20" in str(answers[-1].error_message)
        assert "assignor held failed; keeping the previous target assignment" in caplog.text
        group = broker.consumer_group("g")
        assert group is not None
        assert (members[0].size, group.assignment_epoch, group.epoch) == (4, 2, 3)
        held.go_on.set()

        def settled() -> bool:
            for each in members:
                each.heartbeat()
            return [each.size for each in members] == [2, 2]

        eventually(settled, lambda: f"{[each.owned for each in members]}", 60.0)


def test_a_wrong_result_is_told_and_not_taken() -> None:
    wrong = Wrong()
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(UNHURRIED, topics={"t": 4}, assignors=[wrong]))
        members = [
            stack.enter_context(WireMember(broker, "g", each, server_assignor="wrong"))
            for each in ("m1", "m2")
        ]
        members[0].until(4)
        wrong.is_wrong = True
        members[1].heartbeat()
        answers = []

        def refused() -> bool:
            answers.append(members[1].heartbeat())
            return answers[-1].error_code == -1

        eventually(refused, "no error", 60.0)
        assert "to two members" in str(answers[-1].error_message)
        group = broker.consumer_group("g")
        assert group is not None
        assert {each: set(view.target) for each, view in group.members.items()} == {
            "m1": {"t"},
            "m2": set(),
        }


def test_assignors_of_members_work_on_the_broker_under_their_own_names() -> None:
    weights = {"t": {0: 3.0, 1: 1.0, 2: 1.0, 3: 1.0}}
    settings = {**UNHURRIED, "group.consumer.assignors": "uniform,sticky"}
    weighted = WeightedAssignor(weights=lambda: weights)
    with ExitStack() as stack:
        broker = stack.enter_context(
            EmbeddedBroker(settings, topics={"t": 4}, assignors=[weighted])
        )
        for group_id, name, sizes in (("g", "sticky", [2, 2]), ("h", "weighted", [1, 3])):
            members = [
                stack.enter_context(WireMember(broker, group_id, each, server_assignor=name))
                for each in ("m1", "m2")
            ]
            members[0].until(4)
            kept = set(members[0].owned)

            def settled(wanted: list[int] = sizes, members: list[WireMember] = members) -> bool:
                for each in members:
                    each.heartbeat()
                return sorted(each.size for each in members) == wanted

            eventually(settled, lambda: f"{[each.owned for each in members]}", 60.0)  # noqa: B023
            assert kept == set(members[0].owned)


def test_with_a_clock_of_ones_own_the_result_is_there_when_time_has_passed() -> None:
    class Mine(UniformAssignor):
        name = "mine"

    with (
        EmbeddedBroker(topics={"t": 4}, assignors=[Mine()], clock=ManualClock()) as broker,
        WireMember(broker, "g", "m1", server_assignor="mine") as member,
    ):
        member.heartbeat()
        broker.advance(1)
        member.heartbeat()
        assert member.size == 4


def test_assignor_that_fails_at_each_heartbeat_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(UniformAssignor):
        name = "failing"

        @override
        def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
            raise SystemExit("it fails")

    failures = 0
    with (
        EmbeddedBroker(UNHURRIED, topics={"t": 4}, assignors=[Failing()]) as broker,
        WireMember(broker, "g", "m1", server_assignor="failing") as member,
    ):
        while failures < 3:
            failures += member.heartbeat().error_code == -1
    errors = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert errors == ["group=g: computing a target assignment failed"]


def test_new_reason_and_a_failure_after_a_success_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    jobs = AssignmentJobs()
    for reason in ("one", "one", "two", "two"):
        jobs.log_failure("g", ValueError(reason))
    jobs.log_failure("h", ValueError("two"))
    jobs.succeeded("g")
    jobs.log_failure("g", ValueError("two"))
    errors = [each.getMessage()[:7] for each in caplog.records if each.levelno == logging.ERROR]
    assert errors == ["group=g", "group=g", "group=h", "group=g"]
    for number in range(1_500):
        jobs.log_failure(str(number), ValueError())
    assert len(jobs._logged) <= 1_000
