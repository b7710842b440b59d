"""Groups watched live: what is told of each record, and what is kept between two looks."""

from examples.history_log import Pair, Seat, deletion, generation
from groupsdk.history.groups.live_alerts import Alert, AlertState, end_quiet_storm, next_alerts


ONE = Seat("one", {"t": [0]})
TWO = Seat("two", {"t": [1]})


def take(state: AlertState, offset: int, ts_ms: int, pair: Pair) -> tuple[AlertState, list[Alert]]:
    """Take a record, with three generations in ten seconds for a storm."""
    state, told = next_alerts(
        state, offset, ts_ms, *pair, storm_generations=3, storm_window_ms=10_000
    )
    # what Spark's state does with it
    return AlertState.from_text(state.to_text()), told


def test_each_generation_is_told_with_what_changed() -> None:
    state, (first,) = take(AlertState(), 0, 1000, generation("g", 1, {"a": ONE}))
    assert first == Alert("generation", 1, 1000, "join", 1, 0, 1, 1, 0)
    state, (second,) = take(state, 5, 20_000, generation("g", 2, {"a": ONE, "b": TWO}))
    assert (second.cause, second.joined, second.members, second.rebalances) == ("join", 1, 2, 1)
    state, (third,) = take(state, 6, 40_000, generation("g", 3, {"b": TWO}))
    assert (third.cause, third.gone) == ("leave", 1)
    state, (fourth,) = take(state, 7, 60_000, generation("g", 4, {"b2": TWO}))
    assert fourth.cause == "client_restart"
    assert state.generation == 4


def test_the_second_round_of_a_streams_application_is_told() -> None:
    state, _ = take(AlertState(), 0, 1000, generation("g", 1, {"a": ONE}, protocol="stream"))
    both = {"a": Seat("one", {"t": [0]}, owned={"t": [0, 1]}), "b": Seat("two", {}, ("t",))}
    state, _ = take(state, 1, 20_000, generation("g", 2, both, protocol="stream"))
    both = {"a": ONE, "b": TWO}
    state, (told,) = take(state, 2, 40_000, generation("g", 3, both, protocol="stream"))
    assert told.cause == "cooperative_followup"


def test_a_static_member_that_comes_back_makes_no_new_generation() -> None:
    static = Seat("one", {"t": [0]}, instance_id="i")
    state, _ = take(AlertState(), 0, 1000, generation("g", 7, {"a": static}))
    state, told = take(state, 1, 2000, generation("g", 7, {"a2": static}))
    assert told == []
    state, (left,) = take(state, 2, 90_000, generation("g", 8, {}))
    assert (left.generation, left.gone, left.rebalances) == (8, 1, 1)


def test_a_storm_begins_once_and_ends_once() -> None:
    state = AlertState()
    kinds = []
    for number, second in enumerate((0, 1, 2, 3, 30, 60)):
        state, told = take(state, number, 1000 * second, generation("g", number + 1, {"a": ONE}))
        kinds.append([alert.kind for alert in told])
    assert kinds == [
        ["generation"],
        ["generation"],
        ["generation", "storm"],
        ["generation"],
        ["generation", "storm_over"],
        ["generation"],
    ]


def test_a_storm_ends_also_where_nothing_comes_after_it() -> None:
    state = AlertState()
    for number in range(3):
        state, _ = take(state, number, number, generation("g", number + 1, {"a": ONE}))
    assert state.storming
    state, told = end_quiet_storm(state, 99_000)
    assert [(alert.kind, alert.ts_ms) for alert in told] == [("storm_over", 99_000)]
    assert not state.storming
    assert list(end_quiet_storm(state, 199_000)[1]) == []


def test_what_was_told_is_not_told_again() -> None:
    pair = generation("g", 1, {"a": ONE})
    state, _ = take(AlertState(), 4, 1000, pair)
    again, told = take(state, 4, 1000, pair)
    assert told == []
    assert again == state


def test_a_group_that_is_deleted_starts_afresh() -> None:
    state, _ = take(AlertState(), 0, 1000, generation("g", 9, {"a": ONE}))
    state, told = take(state, 1, 2000, deletion("g"))
    assert told == []
    _, (alert,) = take(state, 2, 3000, generation("g", 1, {"a": ONE}))
    assert alert.cause == "join"


def test_what_cannot_be_decoded_is_told() -> None:
    for pair in ((b"\0\2\0\1g", b"\0\x63"), (b"\0\1\0\1g\0\1t\0\0\0\0", b""), (b"\0\2", b"")):
        state, (alert,) = take(AlertState(), 3, 1000, pair)
        assert alert.kind == "reject"
        assert alert.cause
        assert state.offset == 3
