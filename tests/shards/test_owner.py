"""What one worker owns, decided in virtual time."""

from collections.abc import Mapping
from typing import Any

from groupsdk.shards.owner import (
    GOING,
    KEPT,
    TRANSITIONS,
    Action,
    Callback,
    CallBeside,
    Leave,
    Owner,
    Rejoin,
    ShardState,
    TellGained,
    TellLost,
    Trigger,
)
from tests.shards.paper_group import shard_config


class Played:
    """An owner whose user's code returns at once, except for calls beside poll."""

    def __init__(self, **settings: int) -> None:
        self.now_ms = 1_000
        self.owner = Owner(
            shard_config(**settings),
            lambda lease: self.owner.holdings.holds(lease, self.now_ms),
        )
        self.calls: list[CallBeside] = []

    def assign(self, owned: Mapping[str, int], *standbys: str) -> list[Any]:
        self.owner.assigned(owned, standbys, "me", self.now_ms)
        return self.act()

    def act(self) -> list[Any]:
        """Carry out what is due, and return it."""
        done: list[Action] = []
        while (action := self.owner.next_action(self.now_ms)) is not None:
            done.append(action)
            if isinstance(action, TellGained):
                self.owner.gained()
            elif isinstance(action, CallBeside):
                self.calls.append(action)
            elif isinstance(action, Rejoin):
                self.owner.asked()
            elif isinstance(action, Leave):
                self.owner.left()
        return done

    def end(self, call: CallBeside, *, raised: bool = False) -> list[Any]:
        self.owner.finished(call.call_id, self.now_ms, raised=raised)
        return self.act()

    def is_quiet(self) -> bool:
        return self.owner.is_quiet

    def is_blocked(self) -> bool:
        return self.owner.blocked

    @property
    def names(self) -> list[str]:
        return [lease.name for lease in self.owner.holdings.leases]


def test_the_table_leads_back_to_where_it_began() -> None:
    """From each state there is a way to `GONE`, and each trigger is used."""
    assert {trigger for _, trigger in TRANSITIONS} == set(Trigger)
    reached = {ShardState.GONE}
    while more := {start for (start, _), end in TRANSITIONS.items() if end in reached} - reached:
        reached |= more
    assert reached == set(ShardState)
    for state in KEPT | GOING:
        assert (state, Trigger.LOSE) in TRANSITIONS, "the membership may end at any time"


def test_assigned_shard_is_announced_and_then_held() -> None:
    played = Played()
    (told,) = played.assign({"b": 5, "a": 5})
    assert [(lease.name, lease.epoch, lease.holder) for lease in told.leases] == [
        ("a", 5, "me"),
        ("b", 5, "me"),
    ]
    assert played.names == ["a", "b"]
    assert all(lease.held() for lease in told.leases)
    assert played.assign({"b": 5, "a": 5}) == []
    assert played.owner.claims.held == {"a": 5, "b": 5}


def test_callback_that_raises_is_retried_with_a_growing_delay() -> None:
    played = Played(retry_backoff_ms=10, retry_backoff_max_ms=15)
    played.owner.assigned({"a": 5}, (), "me", played.now_ms)
    for wait_ms in (0, 10, 15, 15):
        played.now_ms += wait_ms
        told = played.owner.next_action(played.now_ms)
        assert isinstance(told, TellGained)
        assert told.leases[0].held()
        assert played.names == [], "the user has not accepted it"
        assert played.owner.claims.held == {"a": 5}
        played.owner.gaining_failed(played.now_ms)
    assert played.owner.next_action(played.now_ms) is None
    assert played.owner.due_ms(played.now_ms) == played.now_ms + 15
    played.now_ms += 15
    played.act()
    assert played.names == ["a"]


def test_revoked_shard_is_claimed_until_it_is_released() -> None:
    played = Played()
    (told,) = played.assign({"a": 5, "b": 5})
    (call,) = played.assign({"b": 5})
    assert (call.callback, call.names) == (Callback.RELEASE, ("a",))
    assert (played.names, played.owner.claims.releasing) == (["b"], {"a": 5})
    assert told.leases[0].held(), "what is in progress may end"
    assert played.assign({"b": 5, "a": 5}) == [], "its release is not undone"
    (rejoin,) = played.end(call)
    assert isinstance(rejoin, Rejoin)
    assert not told.leases[0].held()
    assert played.owner.claims.releasing == {}
    (again,) = played.assign({"b": 5, "a": 9})
    assert [lease.epoch for lease in again.leases] == [9]
    assert not told.leases[0].held()


def test_shard_that_was_never_announced_is_not_released() -> None:
    played = Played()
    played.owner.assigned({"a": 5}, (), "me", played.now_ms)
    assert played.assign({}) == []
    assert played.owner.claims.held == played.owner.claims.releasing == {}


def test_a_release_that_raises_is_called_again_within_the_same_time() -> None:
    played = Played(release_timeout_ms=1_000, retry_backoff_ms=100)
    (told,) = played.assign({"a": 5, "b": 5})
    played.assign({"b": 5})
    assert played.end(played.calls[-1], raised=True) == [played.calls[1]]
    assert played.end(played.calls[-1], raised=True) == []
    played.now_ms += 100
    assert len(played.act()) == 1
    played.now_ms += 900
    assert not any(lease.held() for lease in told.leases), "by the clock alone"
    lost, leave = played.act()
    assert lost == TellLost(("a", "b"))
    assert isinstance(leave, Leave)
    assert played.is_blocked(), "the last call has not returned"
    assert played.end(played.calls[-1]) == []
    assert not played.is_blocked()
    assert played.names == []


def test_a_shard_that_comes_back_waits_for_the_call_of_before() -> None:
    played = Played(release_timeout_ms=1_000)
    played.assign({"a": 5})
    (call,) = played.assign({})
    played.owner.lose()
    assert played.act() == [TellLost(("a",))]
    assert played.assign({"a": 9}) == []
    assert played.owner.claims.held == {"a": 9}
    (told,) = played.end(call)
    assert [lease.epoch for lease in told.leases] == [9]


def test_but_not_for_longer_than_a_release_may_take() -> None:
    played = Played(release_timeout_ms=1_000)
    played.assign({}, "a")
    assert played.assign({"a": 9}) == [], "on_standby_gained is still running"
    assert played.owner.due_ms(played.now_ms) == played.now_ms + 1_000
    played.now_ms += 1_000
    (told,) = played.act()
    assert isinstance(told, TellGained)
    assert played.end(played.calls[0]) == []
    assert played.owner.holdings.standbys == {}


def test_standbys_become_ready_and_the_owner_needs_no_other_word() -> None:
    played = Played()
    (call,) = played.assign({}, "a", "b")
    assert (call.callback, call.names) == (Callback.PREPARE, ("a", "b"))
    assert played.owner.claims.standbys == {"a": False, "b": False}
    played.end(call)
    assert played.owner.claims.standbys == {"a": True, "b": True}
    (told,) = played.assign({"a": 5}, "b")
    assert isinstance(told, TellGained)
    assert played.owner.claims.standbys == {"b": True}
    (ended,) = played.assign({"a": 5})
    assert (ended.callback, ended.names) == (Callback.END, ("b",))
    assert played.assign({"a": 5}, "b") == [], "one callback at a time"
    (again,) = played.end(ended)
    assert (again.callback, again.names) == (Callback.PREPARE, ("b",))


def test_a_standby_that_raises_is_tried_again() -> None:
    played = Played(retry_backoff_ms=100)
    (call,) = played.assign({}, "a")
    (again,) = played.end(call, raised=True)
    assert played.end(again, raised=True) == []
    assert played.owner.due_ms(played.now_ms) == played.now_ms + 100
    played.now_ms += 100
    assert len(played.act()) == 1


def test_draining_member_leaves_once_the_group_knows_and_all_is_released() -> None:
    played = Played()
    played.assign({"a": 5, "b": 5})
    played.owner.drain()
    assert played.assign({"a": 5, "b": 5}) == [], "made before the group knew"
    played.owner.said()
    (first,) = played.assign({"b": 5})
    (rejoin,) = played.end(first)
    assert isinstance(rejoin, Rejoin)
    (second,) = played.assign({})
    (leave,) = played.end(second)
    assert leave == Leave("drained")
    assert played.owner.drained


def test_draining_member_without_shards_leaves_at_once() -> None:
    played = Played()
    played.owner.drain()
    played.owner.said()
    assert played.assign({}) == [Leave("drained")]


def drained_while_a_standby_begins() -> tuple[Played, CallBeside, list[Any]]:
    played = Played(release_timeout_ms=500)
    (standby, *_) = played.assign({"a": 5}, "b")
    played.owner.drain()
    played.owner.said()
    (release,) = played.assign({})
    return played, standby, played.end(release)


def test_drained_member_whose_standbys_are_in_use_joins_again_and_leaves_once_they_have_ended() -> (
    None
):
    played, standby, done = drained_while_a_standby_begins()
    assert done == [Rejoin("1 shards are released")], "the next owner would wait for a Leave"
    assert played.assign({}, "b") == [], "the leader could not plan, and changes nothing"
    assert not played.is_quiet()
    (end,) = played.end(standby)
    assert end.callback is Callback.END
    assert played.end(end) == [Leave("drained")]
    assert played.owner.drained
    assert played.is_quiet()


def test_drained_member_leaves_in_time_though_a_standby_hangs() -> None:
    played, standby, _ = drained_while_a_standby_begins()
    assert played.owner.due_ms(played.now_ms) == played.now_ms + 500
    played.now_ms += 500
    assert played.act() == [Leave("drained")]
    assert not played.owner.is_releasing
    assert not played.owner.stands_by
    (end,) = played.end(standby)
    assert end.callback is Callback.END, "what began too late is ended all the same"


def test_leaving_member_releases_everything_and_asks_for_nothing() -> None:
    played = Played()
    played.assign({"a": 5}, "b")
    played.end(played.calls[0])
    played.owner.give_up(played.now_ms)
    assert [action.callback for action in played.act()] == [Callback.RELEASE, Callback.END]
    owner = played.owner
    assert (owner.is_releasing, owner.stands_by) == (True, True)
    assert played.end(played.calls[1], raised=True) == [TellLost(("a",))], "no second attempt"
    assert (owner.is_releasing, owner.stands_by) == (False, True)
    assert played.end(played.calls[2]) == []
    assert (owner.is_releasing, owner.stands_by) == (False, False)


def test_a_step_is_asked_for_until_it_is_carried_out() -> None:
    """Whatever interrupts it, such as a Ctrl-C."""
    played = Played()
    played.assign({"a": 5})
    (call,) = played.assign({})
    played.owner.finished(call.call_id, played.now_ms, raised=False)
    first = played.owner.next_action(played.now_ms)
    assert isinstance(first, Rejoin)
    assert played.owner.next_action(played.now_ms) == first
    played.owner.asked()
    assert played.owner.next_action(played.now_ms) is None


def test_new_epoch_for_a_held_shard_means_to_release_it() -> None:
    played = Played()
    played.assign({"a": 5})
    (call,) = played.assign({"a": 6})
    assert call.callback is Callback.RELEASE


def test_what_was_taken_just_now_is_told_from_what_was_taken_before() -> None:
    played = Played()
    played.assign({"a": 1, "b": 1})
    played.assign({"b": 1})
    before_ms = played.now_ms
    played.now_ms += 1
    assert played.owner.releases_since(before_ms)
    assert not played.owner.releases_since(played.now_ms)
    played.end(played.calls[-1])
    assert not played.owner.releases_since(before_ms)


def test_idle_owner_has_nothing_to_do() -> None:
    played = Played()
    assert played.is_quiet()
    played.owner.assigned({"a": 5}, ("b",), "me", played.now_ms)
    assert not played.is_quiet()
    played.act()
    assert not played.is_quiet()
    played.end(played.calls[0])
    assert played.is_quiet()
