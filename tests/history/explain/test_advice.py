"""Advice: a group's timeline gone through once more, with a change made."""

from collections.abc import Sequence
from random import Random

from groupsdk.history.explain.advice import (
    UNKNOWN_HABITS,
    Advice,
    AssignorTotals,
    Habits,
    advise,
    returns_of,
)
from groupsdk.history.explain.changes import Cause
from groupsdk.history.explain.timeline.rows import TimelineGeneration, TimelineMembership


def step(
    seq: int,
    second: float,
    cause: Cause,
    *,
    members: int = 3,
    other: bool = False,
    stalled: float = 0.0,
) -> TimelineGeneration:
    """Make a generation in which two of twelve partitions move, and nobody commits for 100 ms."""
    return TimelineGeneration(
        *(seq, int(1000 * second), str(cause), 2, 100, int(1000 * stalled)),
        *(members, 12, other),
    )


def visit(
    client: str,
    first: int,
    end: int = -1,
    *,
    since: float = 0.0,
    until: float = -0.001,
    silent: float = 0.0,
    reason: str = "",
    instance: str | None = None,
    partitions: int = 0,
) -> TimelineMembership:
    """Make a stay of a client, from one generation up to another; times in seconds."""
    return TimelineMembership(
        client_id=client,
        client_host="/h",
        instance_id=instance,
        first_seq=first,
        last_seq=end - 1,
        end_seq=end,
        start_ms=int(1000 * since),
        end_ms=round(1000 * until),
        silent_ms=int(1000 * silent),
        end_reason=reason,
        n_partitions=partitions,
    )


def told(
    timeline: Sequence[TimelineGeneration],
    memberships: Sequence[TimelineMembership],
    *,
    protocol: str = "classic",
    habits: Habits = UNKNOWN_HABITS,
    actual: AssignorTotals | None = None,
    choices: Sequence[AssignorTotals] = (),
) -> dict[str, Advice]:
    """Ask for advice; gives it by its name."""
    found = advise(
        timeline, memberships, protocol=protocol, habits=habits, actual=actual, choices=choices
    )
    return {each.advice: each for each in found}


def restarted(
    away: float, count: int = 2
) -> tuple[list[TimelineGeneration], list[TimelineMembership]]:
    """Restart a client some times, a minute apart: it leaves, and comes back after so many seconds."""
    timeline = [step(0, 0, Cause.JOIN)]
    memberships = [visit("b", 0), visit("a", 0, 1, until=60, reason="leave")]
    for n in range(count):
        gone = 60 * (n + 1)
        timeline.append(step(2 * n + 1, gone, Cause.LEAVE, members=2))
        timeline.append(step(2 * n + 2, gone + away, Cause.JOIN))
        last = n == count - 1
        memberships.append(
            visit("a", 2 * n + 2, since=gone + away)
            if last
            else visit(
                "a", 2 * n + 2, 2 * n + 3, since=gone + away, until=gone + 60, reason="leave"
            )
        )
    return timeline, memberships


def test_a_static_member_that_restarts_makes_no_rebalance() -> None:
    found = told(*restarted(away=20))["static_membership"]
    assert found.setting == "group.instance.id, one for each client; session.timeout.ms=30000"
    assert (found.rebalances, found.moves) == (4, 8)
    assert found.evidence == (1, 2, 3, 4)
    modern = told(*restarted(away=20), protocol="consumer")["static_membership"]
    assert "group.consumer.session.timeout.ms=30000" in modern.setting


def test_a_rebalance_with_another_cause_is_not_spared() -> None:
    timeline, memberships = restarted(away=5)
    # another one comes in the generation in which it is gone
    found = told(timeline, [*memberships, visit("c", 1, since=60)])["static_membership"]
    assert found.evidence == (2, 3, 4)
    timeline[3] = timeline[3]._replace(is_other=True)
    assert told(timeline, memberships)["static_membership"].evidence == (1, 2, 4)


def test_a_client_that_is_away_for_longer_than_any_session_is_not_spared() -> None:
    assert "static_membership" not in told(*restarted(away=4_000))


def test_one_that_has_an_instance_id_already_needs_none() -> None:
    timeline, memberships = restarted(away=5)
    static = [each._replace(instance_id="i") for each in memberships]
    assert "static_membership" not in told(timeline, static)


def test_rebalances_that_follow_a_spared_one_are_spared() -> None:
    timeline, memberships = restarted(away=5)
    timeline.append(step(5, 130, Cause.COOPERATIVE_FOLLOWUP))
    timeline.append(step(6, 900, Cause.SUBSCRIPTION_CHANGE, other=True))
    timeline.append(step(7, 901, Cause.COOPERATIVE_FOLLOWUP))
    assert told(timeline, memberships)["static_membership"].evidence == (1, 2, 3, 4, 5)


def test_a_longer_session_outlasts_the_silence_of_those_that_come_back() -> None:
    timeline = [
        step(0, 0, Cause.JOIN),
        step(1, 60, Cause.EXPIRY),
        step(2, 75, Cause.JOIN),
    ]
    memberships = [
        visit("b", 0),
        visit("a", 0, 1, until=60, silent=10, reason="expiry"),
        visit("a", 2, since=75),
    ]
    found = told(timeline, memberships)["longer_session"]
    # it was silent for 25 s in all
    assert (found.setting, found.rebalances) == ("session.timeout.ms=30000", 2)
    left = [each._replace(end_reason="leave") for each in memberships]
    assert "longer_session" not in told(timeline, left)


def test_one_that_crashed_may_be_back_before_its_session_is_over() -> None:
    timeline = [
        step(0, 0, Cause.JOIN),
        step(1, 55, Cause.JOIN, members=4),
        step(2, 60, Cause.EXPIRY),
    ]
    memberships = [
        visit("b", 0),
        visit("a", 0, 2, until=60, silent=10, reason="expiry"),
        visit("a", 1, since=55),
    ]
    assert told(timeline, memberships)["static_membership"].evidence == (1, 2)


def test_a_group_that_starts_waits_for_its_members() -> None:
    timeline = [
        step(0, 0, Cause.CREATED, members=0, other=True),
        *(step(n, 4 * n, Cause.JOIN, members=n) for n in range(1, 5)),
        step(5, 900, Cause.JOIN, members=5),
    ]
    memberships = [visit(f"c{n}", n) for n in range(1, 6)]
    found = told(timeline, memberships)["initial_delay"]
    assert found.setting == "group.initial.rebalance.delay.ms=6000"
    assert found.evidence == (1, 2, 3)
    # the log begins with the group's first members
    assert told(timeline[1:], memberships)["initial_delay"].evidence == (1, 2, 3)
    assert "initial_delay" not in told(timeline, memberships, protocol="consumer")


def test_a_deployment_at_once_is_two_rebalances() -> None:
    timeline = [step(0, 0, Cause.JOIN)]
    memberships = []
    for n in range(4):
        gone = 100 + 10 * n
        timeline += [step(2 * n + 1, gone, Cause.LEAVE), step(2 * n + 2, gone + 5, Cause.JOIN)]
        memberships += [
            visit(f"c{n}", 0, 2 * n + 1, until=gone, reason="leave"),
            visit(f"c{n}", 2 * n + 2, since=gone + 5),
        ]
    found = told(timeline, memberships)["restart_together"]
    assert found.evidence == (2, 3, 4, 5, 6, 7)
    assert "up to 4 at once" in found.setting
    # far apart they are no deployment
    apart = [each._replace(ts_ms=1000 * each.ts_ms) for each in timeline]
    assert "restart_together" not in told(apart, memberships)


def test_assignors_are_compared_by_what_they_would_have_moved() -> None:
    timeline = [step(0, 0, Cause.JOIN), step(1, 1, Cause.CREATED, members=0)]
    eager = AssignorTotals("actual", 100, 300, is_cooperative=False)
    range_ = AssignorTotals("range", 100, 300, is_cooperative=False)
    sticky = AssignorTotals("sticky", 20, 310, is_cooperative=False)
    cooperative = AssignorTotals("cooperative-sticky", 30, 30, is_cooperative=True)
    found = told(timeline, [], actual=eager, choices=[range_, sticky, cooperative])
    assert found["other_assignor"].setting == "partition.assignment.strategy=sticky"
    assert (found["other_assignor"].moves, found["other_assignor"].revoked) == (80, 0)
    assert (found["cooperative"].moves, found["cooperative"].revoked) == (70, 270)
    assert found["cooperative"].evidence == (0,)
    # no eager one would have moved less
    assert set(told(timeline, [], actual=eager, choices=[range_, cooperative])) == {"cooperative"}
    already = eager._replace(is_cooperative=True)
    assert set(told(timeline, [], actual=already, choices=[cooperative])) == {"other_assignor"}
    assert told(timeline, [], actual=already, choices=[range_]) == {}
    assert told(timeline, [], choices=[sticky]) == {}


def test_a_group_to_which_nothing_happened_gets_no_advice() -> None:
    assert told([], []) == {}
    assert told([step(0, 0, Cause.JOIN)], [visit("a", 0)]) == {}


def test_each_client_that_went_comes_back_once_and_the_nearest_time() -> None:
    random = Random(7)
    for _ in range(200):
        memberships = []
        for _ in range(random.randrange(1, 12)):
            first = random.randrange(8)
            end = random.choice([-1, first + random.randrange(1, 5)])
            since = random.randrange(10)
            until = -0.001 if end < 0 else since + random.randrange(5)
            memberships.append(
                visit("c", first, end, since=since, until=until, silent=random.random())
            )
        got = [(each.membership, each.again, each.away_ms) for each in returns_of(memberships)]
        assert [(id(one), id(other), away) for one, other, away in got] == [
            (id(one), id(other), away) for one, other, away in looked_at_one_by_one(memberships)
        ]


def looked_at_one_by_one(
    memberships: Sequence[TimelineMembership],
) -> list[tuple[TimelineMembership, TimelineMembership, int]]:
    """Find the returns of one client by comparing every stay with every other."""
    begun = sorted(memberships, key=lambda each: each.first_seq)
    found, taken = [], set()
    for one in sorted((each for each in memberships if each.end_ms >= 0), key=lambda v: v.end_seq):
        heard_ms = one.end_ms - one.silent_ms
        for place, again in enumerate(begun):
            if place in taken or again.first_seq <= one.first_seq or again.start_ms < heard_ms:
                continue
            taken.add(place)
            found.append((one, again, max(0, again.start_ms - heard_ms)))
            break
    return found


def test_advice_whose_price_is_higher_than_what_it_spares_does_not_pay() -> None:
    timeline, memberships = restarted(away=20)
    memberships = [each._replace(n_partitions=4) for each in memberships]
    found = told(timeline, memberships)["static_membership"]
    # two absences of 20 s, of which the first 2 s do not count
    assert (found.spared_ms, found.added_ms, found.back) == (0, 2 * 4 * 18_000, 2)
    assert not found.pays
    slow = [each._replace(stalled_ms=60_000) for each in timeline]
    found = told(slow, memberships)["static_membership"]
    assert (found.spared_ms, found.pays) == (4 * 60_000, True)


def test_records_read_late_follow_from_the_rate_of_the_group() -> None:
    timeline, memberships = restarted(away=20)
    memberships = [each._replace(n_partitions=4) for each in memberships]
    found = told(timeline, memberships, habits=Habits(1_000, 0.5))["static_membership"]
    assert found.added_ms == 2 * 4 * 19_000
    assert found.late_added == found.added_ms // 2


def test_a_member_that_went_for_good_would_have_kept_its_partitions_for_the_session() -> None:
    timeline, memberships = restarted(away=5)
    timeline.append(step(5, 500, Cause.LEAVE))
    memberships.append(visit("c", 0, 5, until=500, reason="leave", partitions=3))
    found = told(timeline, memberships)["static_membership"]
    assert found.setting.endswith("session.timeout.ms=10000")
    assert (found.gone, found.added_ms) == (1, 3 * 8_000)
    # had the group stopped a second later nobody would have missed it
    timeline.append(step(6, 501, Cause.LEAVE, members=0))
    found = told(timeline, memberships)["static_membership"]
    assert found.added_ms == 0


def test_the_value_with_the_least_standstill_is_advised() -> None:
    timeline = [
        step(0, 0, Cause.JOIN),
        step(1, 60, Cause.EXPIRY, stalled=40),
        step(2, 62, Cause.JOIN, stalled=40),
        step(3, 160, Cause.EXPIRY, stalled=1),
        step(4, 400, Cause.JOIN, stalled=1),
    ]
    memberships = [
        visit("b", 0),
        visit("a", 0, 1, until=60, silent=5, reason="expiry", partitions=1),
        visit("a", 2, 3, since=62, until=160, silent=5, reason="expiry", partitions=1),
        visit("a", 4, since=400),
    ]
    found = told(timeline, memberships)["longer_session"]
    # a session of 300 s would spare two more rebalances, and leave a partition alone for four minutes
    assert (found.setting, found.evidence) == ("session.timeout.ms=10000", (1, 2))
    assert (found.back, found.gone) == (1, 1)


def test_a_client_that_left_as_it_did_not_poll_needs_more_time_and_no_longer_session() -> None:
    timeline = [
        step(0, 0, Cause.JOIN),
        step(1, 400, Cause.POLL_TIMEOUT),
        step(2, 430, Cause.JOIN),
    ]
    memberships = [
        visit("b", 0),
        visit("a", 0, 1, until=400, silent=300, reason="poll_timeout"),
        visit("a", 2, since=430),
    ]
    found = told(timeline, memberships)
    assert "longer_session" not in found
    assert found["poll_interval"].setting.endswith("max.poll.interval.ms=600000")
    assert found["poll_interval"].evidence == (1, 2)


def test_clients_that_stay_take_over_what_a_deployment_stops() -> None:
    timeline = [step(0, 0, Cause.JOIN, members=4)]
    memberships = [visit("stays", 0)]
    for n in range(3):
        gone = 100 + 10 * n
        timeline += [step(2 * n + 1, gone, Cause.LEAVE), step(2 * n + 2, gone + 5, Cause.JOIN)]
        memberships += [
            visit(f"c{n}", 0, 2 * n + 1, until=gone, reason="leave", partitions=3),
            visit(f"c{n}", 2 * n + 2, since=gone + 5),
        ]
    some = [each._replace(n_members=4) for each in timeline]
    assert told(some, memberships)["restart_together"].added_ms == 0
    every = [each._replace(n_members=3) for each in timeline]
    # all are away for 5 s, and a group that was empty waits 3 s for more members
    assert told(every, memberships[1:])["restart_together"].added_ms == 12 * 6_000
