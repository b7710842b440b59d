"""Test what a consumer joins with, gives up and takes: no member, no broker, no time."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from assignors import LagAssignor
from assignors.sticky.user_data import encode_claim
from groupsdk.assignment import (
    Assignment,
    Cluster,
    GroupAssignment,
    GroupSubscription,
    MemberReport,
    RebalanceProtocol,
    Subscription,
    TopicPartition,
)
from groupsdk.assignment.member_report import with_report
from groupsdk.assignment.subscriptions import (
    decode_assignment,
    decode_subscriptions,
    encode_assignments,
    encode_subscription,
)
from groupsdk.consumer.coordinator import ConsumerCoordinator, check_revoked_first
from groupsdk.consumer.strategies import Strategies
from groupsdk.consumer.subscription import TopicSubscription
from groupsdk.consumer.topics import TopicView
from groupsdk.errors import (
    AssignmentError,
    DecodeError,
    InconsistentGroupProtocolError,
    MetadataError,
)
from groupsdk.member.state import MemberState
from groupsdk.types import NO_GENERATION, Generation, GroupMembers
from groupsdk.wire.consumer_protocol import ConsumerProtocolDecoder
from tests.consumer.coordinator_rig import ME, CoordinatorRig
from tests.consumer.rig import partitions
from tests.drivers.virtual import config


class Rig(CoordinatorRig[ConsumerCoordinator]):
    """A coordinator whose group assigns by itself."""

    def __init__(self, strategy: Any = "range", topics: Any = "t", rack: str | None = None) -> None:
        self.ends: dict[TopicPartition, int] = {}
        self._made_with = (strategy, rack)
        super().__init__(topics)

    @override
    def make_coordinator(self) -> ConsumerCoordinator:
        strategy, rack = self._made_with
        return ConsumerCoordinator(Strategies(strategy), self, self, self.watch, rack)

    @override
    def lags(self, given: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: self.ends[each] for each in given if each in self.ends}

    def complete(
        self, generation: int, *names: str, protocol: str = "range", again: bool = False
    ) -> None:
        self.deliver(generation, names, protocol, again)

    def joined(self) -> list[Any]:
        """Return the subscriptions that it would join with."""
        return [
            ConsumerProtocolDecoder().subscription(data) for _, data in self.coordinator.metadata()
        ]


def members(**topics: str) -> GroupMembers:
    return GroupMembers(
        {each: encode_subscription(Subscription((topic,))) for each, topic in topics.items()}
    )


def test_each_assignor_is_offered_by_preference() -> None:
    rig = Rig(["roundrobin", "range"], topics=["t", "u"], rack="r")
    assert [name for name, _ in rig.coordinator.metadata()] == ["roundrobin", "range"]
    (first, _) = rig.joined()
    assert (first.topics, first.rack_id, first.generation_id) == (("t", "u"), "r", -1)
    assert not rig.asked


def test_ownership_goes_with_the_generation_in_which_it_was_given() -> None:
    rig = Rig("cooperative-sticky")
    rig.complete(3, "t-0", "t-2", protocol="cooperative-sticky")
    rig.coordinator.on_join_prepare(3, ME)
    (joined,) = rig.joined()
    assert (joined.owned_partitions, joined.generation_id) == ({"t": (0, 2)}, 3)


def test_a_pattern_is_matched_before_each_join() -> None:
    rig = Rig(topics="^[tu]$")
    (joined,) = rig.joined()
    assert joined.topics == ("t", "u")
    assert rig.asked == [None]


def test_an_eager_member_gives_up_everything_before_it_joins() -> None:
    rig = Rig()
    rig.complete(1, "t-0", "t-1")
    assert rig.log == [
        *(("take", ["t-0", "t-1"]), ("generation", 3), ("assigned", ["t-0", "t-1"])),
    ]
    rig.log.clear()
    rig.coordinator.on_join_prepare(1, ME)
    assert rig.log == [("commit", 2), ("revoked", ["t-0", "t-1"]), ("release", ["t-0", "t-1"])]
    assert not rig.coordinator.owned


def test_a_cooperative_member_gives_up_only_what_it_no_longer_wants() -> None:
    rig = Rig("cooperative-sticky", topics=["t", "u"])
    rig.complete(1, "t-0", "u-1", protocol="cooperative-sticky")
    rig.coordinator.subscription = TopicSubscription("t")
    rig.log.clear()
    rig.coordinator.on_join_prepare(1, ME)
    assert rig.log == [
        *(("commit", "all"), ("commit", 1), ("revoked", ["u-1"]), ("release", ["u-1"])),
    ]


@pytest.mark.parametrize(("generation", "member_id"), [(-1, ""), (-1, ME), (3, "")])
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_lost_partitions_are_not_committed(strategy: str, generation: int, member_id: str) -> None:
    rig = Rig(strategy)
    rig.complete(1, "t-0", protocol=strategy)
    rig.log.clear()
    rig.coordinator.on_join_prepare(generation, member_id)
    assert rig.log == [("lost", ["t-0"]), ("release", ["t-0"])]
    (joined,) = rig.joined()
    assert (joined.owned_partitions, joined.generation_id) == ({}, -1)


def test_moved_partitions_are_revoked_before_the_group_is_joined_again() -> None:
    rig = Rig("cooperative-sticky")
    rig.complete(1, "t-0", "t-1", protocol="cooperative-sticky")
    rig.complete(2, "t-1", "t-3", protocol="cooperative-sticky")
    assert rig.log == [
        *(("commit", 1), ("revoked", ["t-0"]), ("release", ["t-0"])),
        ("rejoin", "need to revoke partitions and re-join"),
        *(("take", ["t-3"]), ("generation", 3), ("assigned", ["t-3"])),
    ]
    assert rig.coordinator.owned == set(partitions("t-1", "t-3"))


@pytest.mark.parametrize(
    ("strategy", "instance_id", "member_id", "asks"),
    [
        ("cooperative-sticky", "i", "i-2", True),
        ("cooperative-sticky", "i", ME, False),  # the coordinator has compared its metadata
        ("cooperative-sticky", None, "m-2", False),
        ("range", "i", "i-2", False),
    ],
)
def test_static_member_asks_for_a_rebalance_where_it_gets_less_than_it_has_lost(
    strategy: str, instance_id: str | None, member_id: str, asks: bool
) -> None:
    """It gets its place back without a rebalance, and what others were to have from it would stay with nobody."""
    rig = Rig(strategy)
    rig.config = replace(config(), group_instance_id=instance_id)
    rig.complete(1, "t-0", "t-1", protocol=strategy)
    rig.coordinator.on_join_prepare(-1, "")
    share = encode_assignments({ME: Assignment({"t": [1]})})[ME]
    rig.log.clear()
    rig.coordinator.on_join_complete(2, member_id, strategy, share)
    assert (("rejoin", "need to revoke partitions and re-join") in rig.log) == asks
    rig.log.clear()
    rig.coordinator.on_join_complete(3, member_id, strategy, share)
    assert not [each for each in rig.log if each[0] == "rejoin"]


def test_a_generation_without_a_change_is_told_too() -> None:
    rig = Rig("cooperative-sticky")
    rig.complete(1, "t-0", protocol="cooperative-sticky")
    rig.complete(2, "t-0", protocol="cooperative-sticky")
    assert rig.log == [("take", []), ("generation", 3), ("assigned", [])]


def test_an_assignment_for_an_older_subscription_is_not_taken_up() -> None:
    rig = Rig("cooperative-sticky")
    rig.complete(1, "t-0", protocol="cooperative-sticky")
    rig.complete(2, "u-0", protocol="cooperative-sticky")
    assert [name for name, _ in rig.log] == ["rejoin"]
    assert rig.coordinator.owned == set(partitions("t-0"))


@pytest.mark.parametrize("callback", ["revoked", "generation", "assigned"])
def test_a_listener_that_raises_stops_nothing_and_is_not_called_again(callback: str) -> None:
    rig = Rig("cooperative-sticky")
    rig.complete(1, "t-0", "t-1", protocol="cooperative-sticky")
    rig.listener.raises[callback] = RuntimeError("mine")
    with pytest.raises(RuntimeError, match="mine"):
        rig.complete(2, "t-1", "t-2", protocol="cooperative-sticky")
    assert rig.coordinator.owned == set(partitions("t-1", "t-2"))
    assert ("release", ["t-0"]) in rig.log
    assert ("assigned", ["t-2"]) in rig.log
    rig.complete(2, "t-1", "t-2", protocol="cooperative-sticky", again=True)
    assert rig.log == []


@pytest.mark.parametrize("prepared", [True, False])
def test_a_generation_may_bring_several_assignments(prepared: bool) -> None:
    # that of a classic member among members of KIP-848 is its epoch, which waits for others to give up
    rig = Rig("cooperative-sticky")
    for names in ((), ("t-0", "t-1"), ("t-1",), ("t-1", "t-3")):
        if prepared:
            rig.coordinator.on_join_prepare(5, ME)
        rig.complete(5, *names, protocol="cooperative-sticky")
        assert rig.coordinator.owned == set(partitions(*names))
        assert rig.log[-1][0] == "assigned"


def test_a_listener_that_raises_before_a_join_has_given_up_all_the_same() -> None:
    rig = Rig()
    rig.complete(1, "t-0")
    rig.listener.raises["revoked"] = RuntimeError("mine")
    with pytest.raises(RuntimeError):
        rig.coordinator.on_join_prepare(1, ME)
    assert not rig.coordinator.owned
    assert rig.log[-1] == ("release", ["t-0"])


def test_the_leader_assigns_the_topics_of_all_members() -> None:
    rig = Rig()
    plan = rig.coordinator.perform_assignment(ME, "range", members(a="t", b="t", c="u", d="x"))
    shares = {each: len(decode_assignment(data)) for each, data in plan.items()}
    assert shares == {"a": 2, "b": 2, "c": 2, "d": 0}
    assert rig.asked == [["t", "u", "x"]]
    rig.watch.due(0, has_patterns=False)
    assert rig.watch.due(1_000, has_patterns=False)
    rig.coordinator.on_join_prepare(1, ME)
    assert not rig.watch.due(9_000, has_patterns=False)


def test_a_leader_that_does_not_assign_watches_the_topics_of_its_group() -> None:
    rig = Rig()
    rig.coordinator.on_assignment_skipped(ME, "range", members(a="u"))
    assert [each.name for each in rig.watch.asks(0, has_patterns=False).topics or ()] == ["u"]
    # what was there when it was told so counts, not what its first look finds
    assert rig.watch.seen(TopicView({"u": 9})) is not None


def test_a_leader_says_whose_bytes_it_cannot_read() -> None:
    with pytest.raises(DecodeError, match="member 'bad'"):
        Rig().coordinator.perform_assignment(ME, "range", GroupMembers({"bad": b"\xff"}))


def test_only_an_assignor_that_was_offered_is_used() -> None:
    with pytest.raises(InconsistentGroupProtocolError, match="sticky"):
        Rig().complete(1, "t-0", protocol="sticky")


def test_a_member_that_gets_no_bytes_gets_nothing() -> None:
    rig = Rig()
    rig.coordinator.on_join_complete(1, ME, "range", b"")
    assert rig.log == [("take", []), ("generation", 3), ("assigned", [])]


@pytest.mark.parametrize(
    ("changes", "how"),
    [
        ({}, "revoked"),
        ({"generation": NO_GENERATION}, "lost"),
        ({"state": MemberState.PREPARING_REBALANCE}, "revoked"),
        ({"state": MemberState.COMPLETING_REBALANCE}, "revoked"),
        ({"valid_until_ms": 0}, "lost"),
    ],
)
def test_leaving_gives_up_what_is_still_its_own_and_loses_the_rest(
    changes: dict[str, Any], how: str
) -> None:
    rig = Rig()
    rig.complete(1, "t-0")
    rig.changes = changes
    rig.log.clear()
    rig.coordinator.on_leave_prepare()
    assert (how, ["t-0"]) in rig.log
    assert not rig.coordinator.owned


class Greedy:
    """A cooperative assignor that gives everything to one member at once."""

    def __init__(self) -> None:
        from assignors import CooperativeStickyAssignor

        self._real = CooperativeStickyAssignor()
        self.name = "greedy"
        self.version = 0
        self.supported_protocols = self._real.supported_protocols

    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        return None

    def assign(self, cluster: Any, subscriptions: Any) -> dict[str, Assignment]:
        last = max(subscriptions)
        return {each: Assignment({"t": range(4)} if each == last else {}) for each in subscriptions}

    def on_assignment(self, assignment: Assignment, generation_id: int) -> None: ...


def test_a_cooperative_plan_that_gives_away_what_is_owned_is_refused() -> None:
    owner = encode_subscription(Subscription(("t",), owned_partitions={"t": (1,)}, generation_id=1))
    group = GroupMembers({"a": owner, "b": encode_subscription(Subscription(("t",)))})
    with pytest.raises(AssignmentError, match="'greedy' gives t-1 to 'b' while 'a' owns it"):
        Rig(Greedy()).coordinator.perform_assignment(ME, "greedy", group)
    check_revoked_first("x", decode_subscriptions(group), {"a": Assignment({"t": (1,)})})


def test_the_generation_told_is_the_members_own() -> None:
    rig = Rig()
    rig.changes = {"generation": Generation(9, ME, "range")}
    rig.complete(9, "t-0")
    assert ("generation", 9) in rig.log


class Careless(Greedy):
    """An assignor that returns whatever it is told to."""

    def __init__(self, plan: Any = None, user_data: Any = None) -> None:
        super().__init__()
        self._plan = plan
        self._user_data = user_data

    @override
    def subscription_user_data(self, topics: Collection[str]) -> bytes | None:
        return self._user_data  # type: ignore[no-any-return]  # what is tested

    @override
    def assign(self, cluster: Any, subscriptions: Any) -> dict[str, Assignment]:
        return self._plan  # type: ignore[no-any-return]  # what is tested


@pytest.mark.parametrize(
    ("plan", "what"),
    [
        (None, r"assign\(\) must return a mapping of member id to Assignment, not NoneType"),
        ({"a": {"t": [0]}}, r"assign\(\) must give 'a' an Assignment, not \{'t': \[0\]\}"),
        (
            {"z": Assignment()},
            r"assign\(\) gives partitions to 'z', which is not one of the 1 members",
        ),
    ],
)
def test_a_plan_of_another_shape_is_refused(plan: Any, what: str) -> None:
    with pytest.raises(AssignmentError, match=f"assignor 'greedy': {what}"):
        Rig(Careless(plan)).coordinator.perform_assignment(ME, "greedy", members(a="t"))


def test_user_data_that_is_not_bytes_is_refused() -> None:
    with pytest.raises(MetadataError, match="must return bytes or None, not str"):
        Rig(Careless(user_data="text")).coordinator.metadata()


def test_members_that_the_assignor_left_out_get_an_empty_assignment(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig(Careless({"a": Assignment({"t": range(4)})}))
    plan = rig.coordinator.perform_assignment(ME, "greedy", members(a="t", b="t", c="t"))
    # Java's consumer fails on an assignment of no bytes
    assert decode_assignment(plan["b"]) == decode_assignment(plan["c"]) == Assignment()
    assert "left members out, which get no partitions: ['b', 'c']" in caplog.text


def test_partitions_that_are_no_numbers_are_refused() -> None:
    wrong: Any = {"t": ["0"]}
    with pytest.raises(
        AssignmentError, match=r"'greedy' gives '0' of topic 't' to 'a': partitions"
    ):
        Rig(Careless({"a": Assignment(wrong)})).coordinator.perform_assignment(
            ME, "greedy", members(a="t")
        )


def test_partitions_with_several_readers_or_none_are_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    eager = Careless({"a": Assignment({"t": [0, 1]}), "b": Assignment({"t": [1, 2]})})
    eager.supported_protocols = frozenset({RebalanceProtocol.EAGER})
    Rig(eager).coordinator.perform_assignment(ME, "greedy", members(a="t", b="t"))
    assert "gives 1 partitions to several members, each of which reads all" in caplog.text
    assert "records: t-1" in caplog.text
    assert "gives 1 partitions to nobody: t-3" in caplog.text


def test_a_cooperative_assignor_may_leave_partitions_out(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(Careless({"a": Assignment({"t": [0]})}))
    rig.coordinator.perform_assignment(ME, "greedy", members(a="t"))
    assert "to nobody" not in caplog.text


def reported(rig: Rig) -> MemberReport:
    """Return what a consumer would report with its next join."""
    joined = decode_subscriptions({ME: rig.coordinator.metadata()[0].metadata})
    report = joined[ME].report
    assert report is not None
    return report


@pytest.mark.parametrize("eager", [True, False])
def test_an_assignor_that_reads_reports_is_told_client_load_and_lags(eager: bool) -> None:
    assignor = LagAssignor()
    if eager:
        assignor.supported_protocols = frozenset({RebalanceProtocol.EAGER})  # type: ignore[misc]
    rig = Rig(assignor)
    rig.coordinator.client_id = "c-1"
    assert reported(rig) == MemberReport("c-1")
    rig.complete(3, "t-0", "t-1", "t-2", protocol="lag")
    rig.ends = dict(zip(partitions("t-0", "t-1"), (7, 9), strict=True))
    rig.coordinator.load = 2.0
    rig.coordinator.on_join_prepare(3, ME)
    assert reported(rig) == MemberReport("c-1", 2.0, {"t": {0: 7, 1: 9}})


def test_lags_of_what_was_given_up_are_told_once_more() -> None:
    rig = Rig("lag")
    rig.ends = dict(zip(partitions("t-0", "t-1"), (7, 9), strict=True))
    rig.complete(3, "t-0", "t-1", protocol="lag")
    rig.coordinator.on_join_prepare(3, ME)
    rig.complete(4, "t-0", protocol="lag")
    rig.coordinator.on_join_prepare(4, ME)
    assert reported(rig).lags == {"t": {0: 7, 1: 9}}
    rig.complete(5, "t-0", protocol="lag")
    rig.coordinator.on_join_prepare(5, ME)
    assert reported(rig).lags == {"t": {0: 7}}


def test_other_assignors_join_with_the_bytes_of_kafkas() -> None:
    rig = Rig("sticky")
    rig.complete(3, "t-0", protocol="sticky")
    rig.ends = dict.fromkeys(partitions("t-0"), 7)
    rig.coordinator.on_join_prepare(3, ME)
    assert rig.joined()[0].user_data == encode_claim({"t": (0,)}, 3)


def test_the_leaders_assignor_gets_the_lags_of_all_members() -> None:
    seen: list[Cluster] = []

    class Looks(LagAssignor):
        @override
        def assign(self, cluster: Cluster, subscriptions: GroupSubscription) -> GroupAssignment:
            seen.append(cluster)
            return super().assign(cluster, subscriptions)

    rig = Rig(Looks())
    told = {
        each: encode_subscription(
            Subscription(
                ("t",), user_data=with_report(None, MemberReport(each, lags={"t": {n: 9}}))
            )
        )
        for n, each in enumerate("ab")
    }
    rig.coordinator.perform_assignment(ME, "lag", GroupMembers(told))
    assert seen[0].lags == {"t": {0: 9, 1: 9}}
