"""Storms: what stands out in one group's history, where it is quiet in between, and who is behind it."""

import pytest

from groupsdk.history.explain.storms import Storm, pattern_of, storms
from groupsdk.history.explain.timeline.rows import TimelineGeneration, TimelineMembership


WINDOW_MS = 300_000


def stay(
    client: str, host: str, first: int, last: int, lasted_ms: int, reason: str
) -> TimelineMembership:
    """Make a membership of a client over some generations; -1: it has not ended."""
    end_ms = -1 if lasted_ms < 0 else lasted_ms
    return TimelineMembership(client, host, first, last, 0, end_ms, reason)


def rebalances(*seconds: float, cause: str = "join") -> list[TimelineGeneration]:
    """Make generations at these seconds."""
    return [
        TimelineGeneration(seq, int(second * 1000), cause, 2, 10)
        for seq, second in enumerate(seconds)
    ]


def found(made: list[TimelineGeneration], *stays: TimelineMembership, many: int = 5) -> list[Storm]:
    """Find the storms."""
    return list(storms(made, stays, generations=many, window_ms=WINDOW_MS))


def places(
    made: list[TimelineGeneration], *stays: TimelineMembership
) -> list[tuple[int, int, int]]:
    """Say where the storms are, and how many rebalances they have."""
    return [(each.first_seq, each.last_seq, each.generations) for each in found(made, *stays)]


def flaps(
    made: list[TimelineGeneration], *clients: str, host: str = "/h"
) -> list[TimelineMembership]:
    """Let a client come with every second generation, and go with the next."""
    return [
        stay(
            clients[place % len(clients)],
            host,
            came.seq,
            came.seq,
            gone.ts_ms - came.ts_ms,
            "leave",
        )
        for place, (came, gone) in enumerate(zip(made[1::2], made[2::2], strict=False))
    ]


def test_a_group_that_starts_and_stops_is_no_storm() -> None:
    made = rebalances(0, 3, 6, 70, 73, 76)
    stays = [stay(f"worker-{n}", "/h", n, n + 2, 70_000, "leave") for n in range(3)]
    assert found(made, *stays) == []
    # nor is one that is always like that: nothing in its life stands out
    steady = rebalances(*range(0, 100_000, 50))
    assert (
        found(steady, *(stay(f"w-{n}", "/h", n, n + 40, 2_000_000, "leave") for n in range(90)))
        == []
    )


def test_many_rebalances_of_a_group_that_is_calm_otherwise_are_a_storm() -> None:
    made = rebalances(0, 10_000, *range(20_000, 20_200, 10), 40_000, 60_000)
    (storm,) = found(made)
    assert (storm.first_seq, storm.last_seq, storm.generations) == (2, 21, 20)
    assert (storm.start_ms, storm.end_ms) == (20_000_000, 20_190_000)
    assert (storm.moves, storm.downtime_ms, storm.causes) == (40, 200, {"join": 20})
    assert storm.culprit_client is None


def test_a_member_that_comes_and_goes_makes_one_however_short_the_log_is() -> None:
    made = rebalances(0, 5, 8, 15, 18, 25, 28, 35, 38, 600)
    assert places(made, stay("steady", "/h", 0, 9, -1, ""), *flaps(made, "flappy")) == [(0, 8, 9)]
    # so does one that asks for a rebalance again and again
    assert places(rebalances(*range(0, 60, 5), cause="rejoin")) == [(0, 11, 12)]


@pytest.mark.parametrize(
    ("seconds", "many"),
    [
        ((0, 10, 20, 30, 40), 5),
        ((0, 10, 20, 30), 0),
        # the first and the last at the ends of the window, and a millisecond beyond
        ((0, 75, 150, 225, 300), 5),
        ((0, 75, 150, 225, 300.001), 0),
    ],
)
def test_a_storm_begins_with_exactly_the_wanted_number_within_the_window(
    seconds: tuple[float, ...], many: int
) -> None:
    found_in = found(rebalances(*seconds, cause="rejoin"))
    assert [each.generations for each in found_in] == ([many] if many else [])


@pytest.mark.parametrize(
    ("second", "storm_places"), [(5, [(0, 6, 7), (7, 11, 5)]), (4, [(0, 7, 8)])]
)
def test_a_part_of_a_run_is_a_storm_from_exactly_the_wanted_number_on(
    second: int, storm_places: list[tuple[int, int, int]]
) -> None:
    first = [10.0 * each for each in range(12 - second)]
    # a pause in a dense run, longer than the others
    made = rebalances(*first, *(first[-1] + 100 + 10 * n for n in range(second)), cause="rejoin")
    assert places(made) == storm_places


def test_quiet_time_separates_two_storms() -> None:
    burst = [n * 2 for n in range(15)]
    made = rebalances(*burst, *(200 + each for each in burst), 3_000)
    assert places(made) == [(0, 14, 15), (15, 29, 15)]
    # regular pauses are its rhythm
    loop = [start + each for start in range(0, 720, 120) for each in (0, 5)]
    assert places(rebalances(*loop, 9_000)) == [(0, 11, 12)]
    # a few stragglers are no storm of their own
    assert places(rebalances(*burst, 150, 152, 9_000)) == [(0, 14, 15)]


def test_the_client_behind_it_is_named() -> None:
    made = rebalances(*range(0, 200, 10))
    steady = [
        stay("steady-a", "/h", 0, 19, -1, ""),
        stay("steady-b", "/h", 0, 19, -1, ""),
    ]
    (storm,) = found(made, *steady, *flaps(made, "worker-7"))
    assert (storm.culprit_client, storm.culprit_changes, storm.culprit_clients) == (
        *("worker-7", 18),
        1,
    )
    assert storm.culprit_host == "/h"


def test_clients_that_have_a_new_id_each_time_are_one() -> None:
    made = rebalances(*range(0, 200, 10))
    pods = [f"orders-6d5f9c{n}b7-x{n}kzp" for n in range(9)]
    steady = [stay(f"orders-{name}", "/h", 0, 19, -1, "") for name in ("one", "two")]
    (storm,) = found(made, *steady, *flaps(made, *pods))
    assert (storm.culprit_client, storm.culprit_changes, storm.culprit_clients) == (
        *("orders-*", 18),
        9,
    )
    # where even the names have nothing in common, the host tells
    others = [f"{n}f1c-{n * 7}" for n in range(9)]
    (storm,) = found(made, *steady, *flaps(made, *others, host="/10.0.0.9"))
    assert (storm.culprit_client, storm.culprit_host) == ("*", "/10.0.0.9")


def test_clients_that_are_numbered_are_called_so() -> None:
    made = rebalances(*range(0, 200, 10))
    numbered = [f"m{n % 3 + 1}" for n in range(9)]
    (storm,) = found(made, *flaps(made, *numbered), stay("x", "/h", 0, 3, 1_000, "leave"))
    assert (storm.culprit_client, storm.culprit_changes, storm.culprit_clients) == ("m*", 18, 3)
    # a few among others are not behind it
    mixed = [f"{n}f1c-{n * 7}" for n in range(5)] + ["m1", "m2", "w1", "w2"]
    (storm,) = found(made, *flaps(made, *mixed))
    assert storm.culprit_client == "*"


def test_coordinator_outage_has_no_culprit() -> None:
    made = rebalances(*range(0, 200, 10))
    lost = [stay("steady", "/h", n, n, 10_000, "coordinator_restart") for n in range(0, 18, 3)]
    (storm,) = found(made, *lost, *flaps(made, "flappy"))
    assert storm.culprit_client == "flappy"


@pytest.mark.parametrize(
    ("client_id", "pattern"),
    [
        ("steady-a", "steady-a"),
        ("rdkafka", "rdkafka"),
        ("pod-07f1c", "pod-*"),
        ("worker3", "worker*"),
        ("consumer-orders-12", "consumer-orders-*"),
        ("orders-6d5f9c7b8-xkzpw", "orders-*"),
        ("app-7c9e6679-7425-40de-944b-e07fc1f90ae7", "app-*"),
        ("deadbeef", "*"),
        ("", ""),
    ],
)
def test_a_pattern_is_what_stays_of_a_name(client_id: str, pattern: str) -> None:
    assert pattern_of(client_id) == pattern
