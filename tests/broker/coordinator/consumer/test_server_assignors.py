"""Tests the assignors that run in the coordinator, those of a user's own, and what becomes of wrong ones."""

import copy
import random
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition as NativePartition
from typing_extensions import override

from assignors import LagAssignor
from assignors.weighted import WeightedAssignor
from groupsdk.assignment import Cluster, GroupAssignment, GroupSubscription, MemberReport
from groupsdk.broker.coordinator.consumer.assignment_jobs import AssignmentJob
from groupsdk.broker.coordinator.consumer.assignor_registry import load_assignors
from groupsdk.broker.coordinator.consumer.assignors import (
    AssignorError,
    GroupSpec,
    MemberSpec,
    RangeAssignor,
    ServerAssignor,
    UniformAssignor,
    checked,
)
from groupsdk.broker.coordinator.consumer.topics import Partitions, TopicInfo
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.errors import ConfigError
from tests.broker.coordinator.consumer.rig import Rig, Topics, heartbeat_request
from tests.support.cases import each_case
from tests.support.groups import request_once
from tests.support.workers import eventually


A, B = UUID(int=1), UUID(int=2)


def spec(
    members: Mapping[str, set[UUID]],
    topics: Mapping[UUID, int],
    targets: Mapping[str, Partitions] | None = None,
) -> GroupSpec:
    return GroupSpec(
        members={
            each: MemberSpec(
                member_id=each,
                instance_id=None,
                rack_id=None,
                subscribed=frozenset(wanted),
                target=(targets or {}).get(each, {}),
            )
            for each, wanted in members.items()
        },
        topics={each: TopicInfo(each, f"t{each.int}", count) for each, count in topics.items()},
        is_homogeneous=len({frozenset(each) for each in members.values()}) == 1,
    )


def sizes(made: Mapping[str, Partitions]) -> list[int]:
    """Counts the partitions of each member, in order."""
    return sorted(sum(map(len, each.values())) for each in made.values())


def test_range_gives_contiguous_parts_of_each_topic() -> None:
    made = RangeAssignor().assign(spec({"m1": {A, B}, "m2": {A}}, {A: 5, B: 2}))
    assert made == {"m1": {A: (0, 1, 2), B: (0, 1)}, "m2": {A: (3, 4)}}


class _Counted(frozenset[UUID]):
    """A subscription that counts how often it is asked for a topic."""

    asked = 0

    @override
    def __contains__(self, topic_id: object) -> bool:
        _Counted.asked += 1
        return super().__contains__(topic_id)


def test_range_of_many_topics_and_members_asks_once_for_each_subscription() -> None:
    topics = dict.fromkeys((UUID(int=n) for n in range(1, 101)), 2)
    subscribed = _Counted(topics)
    group = spec({f"m{n:03}": set(topics) for n in range(100)}, topics)
    members = {each: replace(of, subscribed=subscribed) for each, of in group.members.items()}
    made = checked(group, RangeAssignor().assign(replace(group, members=members)))
    assert set(made["m000"]) == set(made["m001"]) == set(topics)
    assert sizes(made) == [0] * 98 + [len(topics)] * 2
    assert 0 < _Counted.asked <= 2 * len(topics)


@pytest.mark.parametrize("homogeneous", [True, False])
def test_uniform_is_balanced_and_keeps_what_may_stay(homogeneous: bool) -> None:
    chosen = random.Random(7)
    for seed in range(200):
        chosen.seed(seed)
        topics = {UUID(int=n + 1): chosen.randint(1, 8) for n in range(chosen.randint(1, 4))}
        targets: dict[str, Partitions] = {}
        names = [f"m{n}" for n in range(chosen.randint(1, 6))]
        for _ in range(3):
            members = {
                name: set(topics)
                if homogeneous
                else {each for each in topics if chosen.random() < 0.6} or {next(iter(topics))}
                for name in names
            }
            wanted = {each for subscribed in members.values() for each in subscribed}
            topics = {each: count for each, count in topics.items() if each in wanted}
            group = spec(members, topics, targets)
            made = checked(group, UniformAssignor().assign(group))
            total = sum(topics[each] for each in wanted)
            assert sum(sizes(made)) == total, seed
            if homogeneous:
                assert sizes(made)[-1] - sizes(made)[0] <= 1, seed
                again = spec(members, topics, made)
                assert UniformAssignor().assign(again) == made, seed
            targets = made
            names = (
                [*names, f"m{len(names) + seed}"] if chosen.random() < 0.5 else names[1:] or names
            )


class _Mine:
    """Gives all to the first member, or does what a test tells it to."""

    name = "mine"

    def __init__(self) -> None:
        self.wrong: Any = None
        self.homogeneous: list[bool] = []

    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        self.homogeneous.append(group.is_homogeneous)
        if isinstance(self.wrong, Exception):
            raise self.wrong
        if self.wrong is not None:
            return cast("Mapping[str, Partitions]", self.wrong)
        first = min(group.members)
        return {
            first: {each.topic_id: tuple(range(each.partitions)) for each in group.topics.values()}
        }


def join(
    rig: Rig,
    member_id: str,
    assignor: str | None = None,
    names: tuple[str, ...] = ("t",),
    regex: str | None = None,
) -> Any:
    return rig.heartbeat(
        member_id,
        subscribed_topic_names=names,
        subscribed_topic_regex=regex,
        server_assignor=assignor,
    )


class _Untold(_Mine):
    """Cannot be made."""

    def __init__(self) -> None:
        raise ZeroDivisionError


class _NeedsMore(_Mine):
    """Cannot be made without arguments."""

    def __init__(self, more: int) -> None:
        super().__init__()
        self.more = more


class _TwoGroups(_Mine):
    """Wants another argument."""

    @override
    def assign(self, group: GroupSpec, other: GroupSpec) -> Mapping[str, Partitions]:  # type: ignore[override]
        return {}


class _Later(_Mine):
    """Answers later."""

    @override
    async def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:  # type: ignore[override]
        return {}


def _named(name: Any) -> Any:
    mine: Any = _Mine()
    mine.name = name
    return mine


def test_an_assignor_of_ones_own_is_asked_and_its_mistakes_change_nothing() -> None:
    mine = _Mine()
    rig = Rig(Topics(t=3), assignors=load_assignors("uniform", [mine]))
    topic = rig.topics.id_of("t")
    assert join(rig, "m1", "mine").assignment.topic_partitions[0].partitions == (0, 1, 2)
    assert join(rig, "m2", "none of ours").error_code == 112
    group = rig.group
    for wrong in (
        {"m9": {topic: (0,)}},
        {"m1": {topic: (0, 3)}},
        {"m1": {topic: (-1,)}},
        {"m1": {UUID(int=77): (0,)}},
        {"m1": {topic: (0,)}, "m2": {topic: (0,)}},
        {"m1": {topic: (0, 0)}},
        RuntimeError("no"),
    ):
        mine.wrong = wrong
        before = len(rig.log)
        refused = join(rig, "m2", "mine")
        assert refused.error_code == -1, wrong
        assert "target assignment" in refused.error_message
        # nothing of it is written, and the last good assignment holds
        assert len(rig.log) == before
        assert group.target("m1") == {topic: (0, 1, 2)}
    mine.wrong = None
    assert join(rig, "m2", "mine").error_code == 0


def test_an_assignor_is_told_whether_all_subscribe_to_the_same() -> None:
    for first, second, same in (
        ({"names": ("t",)}, {"names": ("t",)}, True),
        # a topic that does not exist counts
        ({"names": ("t",)}, {"names": ("t", "none")}, False),
        ({"names": (), "regex": "t.*"}, {"names": (), "regex": "t.*"}, True),
        # Kafka compares expressions, not what they stand for
        ({"names": (), "regex": "t.*"}, {"names": (), "regex": "t+"}, False),
        ({"names": ("t",), "regex": "t.*"}, {"names": ("t",), "regex": "t.*"}, False),
        ({"names": ("t",)}, {"names": (), "regex": "t.*"}, False),
    ):
        mine = _Mine()
        rig = Rig(Topics(t=3), assignors=load_assignors("uniform", [mine]))
        for member_id, subscription in (("m1", first), ("m2", second)):
            joined = join(rig, member_id, "mine", **subscription)
            assert joined.error_code == 0
            # expressions are resolved after an answer, not too often; the next heartbeat has the target computed
            epoch = joined.member_epoch
            for _ in range(3):
                rig.advance(11_000)
                epoch = rig.heartbeat(member_id, epoch).member_epoch
        assert mine.homogeneous[-1] is same, (first, second)


def test_results_are_checked() -> None:
    group = spec({"m1": {A}, "m2": {A}}, {A: 2})
    assert checked(group, {"m1": {A: (1, 0)}, "m2": {A: ()}}) == {"m1": {A: (1, 0)}, "m2": {}}
    wrong_ones: tuple[tuple[dict[str, Partitions], str], ...] = (
        ({"m3": {A: (0,)}}, "unknown member"),
        ({"m1": {B: (0,)}}, "not subscribed"),
        ({"m1": {A: (2,)}}, "-2, which does not exist"),
        ({"m1": {A: (0,)}, "m2": {A: (0,)}}, "two members"),
    )
    for wrong, text in wrong_ones:
        with pytest.raises(AssignorError, match=text):
            checked(group, wrong)


def test_assignors_are_loaded_by_name() -> None:
    assert list(load_assignors("range, uniform")) == ["range", "uniform"]
    path = "groupsdk.broker.coordinator.consumer.assignors:RangeAssignor"
    found: dict[str, ServerAssignor] = load_assignors(path)
    assert list(found) == ["range"]
    for text, problem in (
        ("", "at least one"),
        ("stick", "use one of uniform"),
        ("cooperative-sticky2", "no assignor"),
        ("range,range", "twice"),
        ("no.such:Class", "cannot load 'no.such:Class' .ModuleNotFoundError: "),
        ("builtins:object", "'builtins:object' has no name and method assign"),
        ("sys:exit", "cannot load 'sys:exit' .SystemExit"),
        (f"{__name__}:_Untold", "cannot load .*ZeroDivisionError"),
        (f"{__name__}:_NeedsMore", "cannot load .*missing 1 required positional argument"),
    ):
        with pytest.raises(ConfigError, match=problem):
            load_assignors(text)


@each_case(
    ("assignors", "problem"),
    (
        (["sticky"], "assignors: 'sticky' is a name: write it into group.consumer.assignors"),
        ("sticky", "must be a list of assignors, not 'sticky'"),
        (_Mine(), "must be a list of assignors"),
        ([object()], "has no name and method assign"),
        ([_Mine], "is a class: pass an object of it, _Mine"),
        ([WeightedAssignor], "is a class: pass an object of it, WeightedAssignor"),
        ([_named(7)], "its name must be a string of 1 to 249 printable characters, not 7"),
        ([_named("")], "its name must be a string"),
        ([_named("a\ud800")], "its name must be a string"),
        ([_TwoGroups()], "assign must take one argument, the group: missing a required argument"),
        ([_Later()], "assign must be a plain function, not async def"),
        ([_Mine(), _Mine()], "two are named 'mine'"),
    ),
)
def test_a_broker_refuses_to_start_with_an_assignor_that_it_cannot_call(
    assignors: Any, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        EmbeddedBroker(assignors=assignors).start()


def test_a_broker_refuses_to_start_with_a_name_that_is_no_assignors() -> None:
    with pytest.raises(ConfigError, match=r"group.consumer.assignors: cannot load 'stick'"):
        EmbeddedBroker({"group.consumer.assignors": "uniform,stick"}).start()


def test_partitions_from_a_generator_are_assigned() -> None:
    group = spec({"m1": {A}}, {A: 2})
    made: Any = {"m1": {A: (each for each in (1, 0))}}
    assert checked(group, made) == {"m1": {A: (1, 0)}}


@each_case(
    ("result", "problem"),
    (
        (None, "must return a mapping of member ids to partitions, not NoneType"),
        (["m1"], "must return a mapping of member ids to partitions, not list"),
        ({"m1": [0]}, "must return for m1 a mapping of topic ids to partition numbers, not list"),
        ({"m1": {A: 0}}, "must return the partitions of t1 as integers, not 0"),
        ({"m1": {A: "01"}}, "must return the partitions of t1 as integers, not '01'"),
        ({"m1": {A: b"01"}}, "must return the partitions of t1 as integers"),
        ({"m1": {A: (0.5,)}}, r"as integers, not \(0.5,\)"),
        ({"m1": {A: (0.0,)}}, r"as integers, not \(0.0,\)"),
        ({"m1": {A: (True,)}}, r"as integers, not \(True,\)"),
        ({"m1": {A: (each for each in (0, 0.0))}}, r"as integers, not \(0, 0.0\)"),
    ),
)
def test_a_result_of_another_type_is_told(result: Any, problem: str) -> None:
    with pytest.raises(AssignorError, match=problem):
        checked(spec({"m1": {A}}, {A: 2}), result)


def test_an_assignor_that_changes_the_group_is_told_and_changes_nothing() -> None:
    class Changes(_Mine):
        @override
        def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
            made = super().assign(group)
            cast("dict[str, MemberSpec]", group.members).popitem()
            return made

    group = spec({"m1": {A}, "m2": {A}}, {A: 2}, {"m1": {A: (0,)}})
    before = copy.deepcopy(group)
    with pytest.raises(AssignorError, match="'mine' changed the group that it was given"):
        AssignmentJob("g", 1, "mine", Changes(), group).run()
    assert group == before
    assert AssignmentJob("g", 1, "mine", _Mine(), group).run() == {"m1": {A: (0, 1)}}


def test_a_client_s_assignor_sees_client_ids_racks_and_lags_on_the_broker() -> None:
    seen: list[tuple[Cluster, GroupSubscription]] = []

    class Looks(LagAssignor):
        @override
        def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
            seen.append((cluster, subscriptions))
            return super().assign(cluster, subscriptions)

    group = spec({"a": {A}, "b": {A}}, {A: 4}, {"a": {A: (0, 1)}, "b": {A: (2, 3)}})
    group = replace(
        group,
        members={
            each: replace(member, client_id=f"c-{each}", rack_id="r")
            for each, member in group.members.items()
        },
        lags={A: {0: 90_000, 1: 80_000, 2: 0}},
    )
    assignor = load_assignors("", [Looks()])["lag"]
    made = AssignmentJob("g", 1, "lag", assignor, group).run()
    ((cluster, subscriptions),) = seen
    assert cluster.lags == {"t1": {0: 90_000, 1: 80_000, 2: 0}}
    assert subscriptions["b"].report == MemberReport("c-b", lags={"t1": {2: 0}})
    assert subscriptions["b"].rack_id == "r"
    assert sizes(made) == [2, 2]
    assert {0, 1} not in [set(each[A]) for each in made.values()]


def test_a_broker_s_assignor_gets_lags_if_it_reads_reports() -> None:
    seen: list[GroupSpec] = []

    class Looks(RangeAssignor):
        name = "looks"
        reads_reports = True

        @override
        def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
            seen.append(group)
            return super().assign(group)

    with EmbeddedBroker(topics={"t": 2}, assignors=[Looks()]) as broker:
        address = broker.bootstrap_servers
        producer = Producer({"bootstrap.servers": address})
        for partition in (0, 0, 0, 1):
            producer.produce("t", b"x", partition=partition)
        assert producer.flush(60) == 0
        settings = {"bootstrap.servers": address, "group.id": "g"}
        with closing(Consumer(settings)) as outsider:
            outsider.commit(offsets=[NativePartition("t", 0, 1)], asynchronous=False)
        request = heartbeat_request("m", server_assignor="looks")
        assert request_once(address, request, 1).error_code == 0
        eventually(lambda: seen)
    (lags,) = seen[0].lags.values()
    assert lags == {0: 2}
