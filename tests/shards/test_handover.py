"""Holds what members are told: release first, then gain, with epochs that only rise, through any history of a group."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from hypothesis import HealthCheck, given, settings, strategies as st

from groupsdk.shards.config import ShardConfig
from groupsdk.shards.handover import (
    AFTER_GIVING_MS,
    AFTER_TAKING_MS,
    LATEST_MS,
    ROUNDS_IN_A_ROW,
    GroupPlan,
    LeaderMemory,
    Rounds,
    assign_shards,
    known_incarnation,
    least_incarnation,
    record_bytes,
    was_missed,
)
from groupsdk.shards.types import Shard, ShardError, checked_shards, digest_of
from groupsdk.wire.coordinator_records.declaration import write_value
from groupsdk.wire.coordinator_records.group_metadata import GroupMetadataValue, MemberMetadata
from groupsdk.wire.shards.protocol import (
    MemberState,
    Progress,
    decode_assignment,
    decode_member,
    encode_member,
    epoch_of,
)
from tests.shards.paper_group import CONFIG, PaperGroup, settled, shard_config
from tests.support.cases import each_case


def assigned(
    shards: Sequence[Shard] | None,
    members: dict[str, MemberState],
    *,
    generation: int = 9,
    memory: LeaderMemory | None = None,
    config: ShardConfig = CONFIG,
    error: ShardError | None = None,
) -> GroupPlan:
    """Assign in incarnation 1."""
    return assign_shards(
        shards,
        members,
        generation,
        1,
        memory or LeaderMemory(),
        config,
        0,
        error,
    )


def test_a_shard_is_given_to_its_target_only_when_nobody_claims_it() -> None:
    shards = checked_shards(["x", "y"])
    held = {"x": 5, "y": 5}
    first = assigned(shards, {"a": MemberState(held=held), "b": MemberState()}, generation=2)
    kept = dict(first.assignments["a"].owned)
    (moving,) = held.keys() - kept
    assert len(kept) == 1
    assert first.assignments["b"].owned == {}

    releasing = MemberState(held=kept, releasing={moving: 5})
    second = assigned(
        shards, {"a": releasing, "b": MemberState()}, generation=3, memory=first.memory
    )
    assert second.assignments["a"].owned == kept
    assert second.assignments["b"].owned == {}

    third = assigned(
        shards,
        {"a": MemberState(held=kept), "b": MemberState()},
        generation=4,
        memory=second.memory,
    )
    assert third.assignments["a"].owned == kept
    assert third.assignments["b"].owned == {moving: epoch_of(1, 4)}
    assert decode_assignment(third.encoded["b"]) == third.assignments["b"]


def test_of_two_claims_the_one_with_the_greater_epoch_wins_and_the_other_is_told_to_drop_it() -> (
    None
):
    members = {"a": MemberState(held={"x": 5}), "b": MemberState(held={"x": 7})}

    done = assigned(checked_shards(["x"]), members)

    assert done.assignments["a"].owned == {}
    assert done.assignments["b"].owned == {"x": 7}


def test_an_outdated_claim_does_not_become_valid_because_the_newer_one_is_being_released() -> None:
    members = {"a": MemberState(held={"x": 5}), "b": MemberState(releasing={"x": 7})}

    for shards in (checked_shards(["x"]), None):
        done = assigned(shards, members)
        assert done.assignments["a"].owned == {}
        assert done.assignments["b"].owned == {}


def test_a_shard_that_is_being_released_is_given_again_only_with_a_new_epoch() -> None:
    shards = checked_shards(["x"])

    assert assigned(shards, {"a": MemberState(releasing={"x": 7})}).assignments["a"].owned == {}
    given_again = assigned(shards, {"a": MemberState()}).assignments["a"].owned
    assert given_again == {"x": epoch_of(1, 9)}


def test_a_shard_that_is_gone_from_the_list_is_released_and_nobody_gains_it() -> None:
    done = assigned(checked_shards(["y"]), {"a": MemberState(held={"x": 5}), "b": MemberState()})

    assert sorted(name for each in done.assignments.values() for name in each.owned) == ["y"]


def test_without_a_list_everybody_keeps_what_it_holds_and_is_told_why() -> None:
    members = {
        "a": MemberState(held={"x": 5}, standbys={"y": True}),
        "b": MemberState(releasing={"y": 4}),
    }
    before = assigned(checked_shards(["x", "y"]), members)

    done = assigned(None, members, memory=before.memory, error=ShardError("shards() raised"))

    assert done.assignments["a"].owned == {"x": 5}
    assert done.assignments["a"].standbys == ("y",)
    assert done.assignments["b"].owned == {}
    assert done.assignments["b"].error == "shards() raised"
    assert done.assignments["b"].shard_count == 2
    assert isinstance(done.error, ShardError)
    assert done.memory == before.memory


def test_all_are_told_the_lists_digest_and_count_and_how_many_are_unplaceable() -> None:
    shards = checked_shards(["x", Shard("g", needs=frozenset({"gpu"}))])

    done = assigned(shards, {"a": MemberState(), "b": MemberState()})

    for assignment in done.assignments.values():
        assert assignment.shard_count == 2
        assert assignment.shard_digest == digest_of(shards)
        assert assignment.unplaceable == 1
    again = assigned(shards, {"a": MemberState()}, memory=done.memory)
    assert again.assignments["a"].shard_digest == digest_of(shards)
    other = assigned(checked_shards(["x"]), {"a": MemberState()}, memory=done.memory)
    assert other.assignments["a"].shard_digest == digest_of(checked_shards(["x"]))


def test_the_incarnation_goes_on_while_a_member_stays_in_the_group() -> None:
    stays = MemberState(progress=Progress(7, 3))
    left = MemberState(progress=Progress(7, 4, unbroken=False))

    assert known_incarnation({}, 1) is None
    assert known_incarnation({"a": MemberState()}, 1) is None
    assert known_incarnation({"a": stays, "b": MemberState()}, 4) == 7
    assert known_incarnation({"a": stays}, 3) is None
    assert known_incarnation({"a": stays, "b": left}, 5) == 7
    assert known_incarnation({"a": stays, "b": left}, 4) is None
    assert known_incarnation({"b": left}, 9) is None
    assert known_incarnation({"a": stays}, 5) is None, "generation 4 may have begun another"
    assert known_incarnation({"a": stays, "b": MemberState(progress=Progress(8, 8))}, 9) == 8
    beyond = MemberState(progress=Progress(8, 8, unbroken=False))
    assert known_incarnation({"a": stays, "b": beyond}, 9) is None


def test_a_new_incarnation_is_above_all_epochs_that_are_known() -> None:
    members = {
        "a": MemberState(progress=Progress(7, 3), held={"x": epoch_of(9, 1)}),
        "b": MemberState(releasing={"y": epoch_of(12, 2**21 - 1)}),
    }

    assert least_incarnation({}) == 1
    assert least_incarnation(members) == 13
    assert epoch_of(least_incarnation(members), 0) > epoch_of(12, 2**21 - 1)
    assert least_incarnation({"a": MemberState(progress=Progress(7, 2**21 + 5))}) == 9


def group_of(random: Random) -> PaperGroup:
    """Make a group with shards and members of all kinds."""
    needs = [frozenset[str](), frozenset[str](), frozenset({"gpu"})]
    shards = [
        Shard(
            f"s-{number}",
            weight=random.choice([1.0, 1.0, 3.0]),
            needs=random.choice(needs),
            zone=random.choice([None, "a", "b"]),
        )
        for number in range(random.randrange(1, 25))
    ]
    config = shard_config(standbys=random.choice([0, 0, 1, 2]))
    group = PaperGroup(checked_shards(shards), config)
    for number in range(random.randrange(1, 5)):
        group.join(f"m-{number}", state_of(random))
    return group


def state_of(random: Random) -> MemberState:
    """Make a member of any kind."""
    return MemberState(
        zone=random.choice([None, "a", "b"]),
        capabilities=random.choice([frozenset[str](), frozenset({"gpu"})]),
        capacity=random.choice([1.0, 1.0, 2.0]),
        max_shards=random.choice([None, None, None, 4]),
    )


def disturb(group: PaperGroup, random: Random, step: int) -> None:
    """Let one thing happen to a group."""
    members = sorted(group.members)
    member = random.choice(members)
    event = random.randrange(12)
    if event < 2 or len(members) == 1:
        group.join(f"n-{step}", state_of(random))
    elif event == 2:
        group.leave(member)
    elif event == 3:
        group.rejoin_after_loss(member, f"{member}+{step}")
    elif event == 4:
        group.change_leader()
    elif event == 5:
        group.forget()
    elif event == 6:
        group.drain(member)
    elif event == 7:
        names = random.sample(
            [shard.name for shard in group.shards], random.randrange(1, len(group.shards) + 1)
        )
        group.shards = checked_shards([*names, f"new-{step}"])
    elif event == 8:
        loads = {name: random.expovariate(1) for name in group.members[member].held}
        group.members[member] = replace(group.members[member], loads=loads)
        group.now_ms += 200_000
    elif event == 9:
        # the generation goes on while nobody is told anything
        group.generation += random.randrange(1, 4)
    else:
        group.release(member)
        group.get_ready()


@each_case("seed", range(80))
def test_no_history_gives_a_shard_twice_or_with_an_epoch_that_does_not_rise(seed: int) -> None:
    # what is checked in each generation is in PaperGroup.check
    random = Random(seed)
    group = group_of(random)
    for step in range(40):
        disturb(group, random, step)
        members = sorted(group.members)
        deaf = random.sample(members, random.randrange(len(members)) // 3)
        group.rebalance(deaf)
        for member in random.sample(members, random.randrange(len(members) + 1)):
            held = [*group.members[member].releasing]
            group.release(member, random.sample(held, random.randrange(len(held) + 1)))

    last = group.settle()

    owners = {name: member for member, names in group.owned().items() for name in names}
    draining = {member for member, state in group.members.items() if state.draining}
    assert owners.keys() == last.plan.targets.keys()
    assert owners.keys() | last.plan.unplaceable.keys() == {shard.name for shard in group.shards}
    assert draining.isdisjoint(owners.values())


def test_a_member_that_was_away_does_not_bring_an_older_incarnation_back() -> None:
    # it knows the greatest generation of a life of the group that has ended
    group = PaperGroup(checked_shards(["x"]))
    group.join("a")
    for _ in range(7):
        group.settle()
    away = group.leave("a")
    group.generation = 0
    group.join("b")
    group.change_leader()
    group.settle()
    group.leave("b")
    group.generation = 30
    group.change_leader()
    group.join("a'", replace(away, held={}, progress=replace(away.progress, unbroken=False)))

    group.settle()

    assert group.owned() == {"a'": ["x"]}


def test_twice_2_to_the_21_generations_still_make_epochs_rise() -> None:
    group = PaperGroup(checked_shards(["x"]))
    group.join("a")
    group.settle()
    for number in range(4):
        group.generation += 2**20
        group.leave("a" if number == 0 else f"a-{number - 1}")
        group.join(f"a-{number}")
        group.settle()
    group.forget()
    group.settle()

    assert group.generation < 10


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 120), st.integers(2, 6), st.integers(0, 2), st.booleans())
def test_draining_moves_a_tenth_at_a_time_and_leaves_nothing_without_an_owner_for_longer_than_its_release(
    count: int, members: int, standbys: int, changes_leader: bool
) -> None:
    group = settled(count, *(f"m-{number}" for number in range(members)), standbys=standbys)
    group.get_ready()
    beginning = len(group.members["m-0"].held)
    group.drain("m-0")
    rounds = 0
    while group.members["m-0"].held or group.members["m-0"].releasing:
        rounds += 1
        if changes_leader and rounds == 3:
            group.change_leader()
        group.rebalance()
        state = group.members["m-0"]
        assert len(state.releasing) <= -(-beginning // 10)
        running = {name for names in group.owned().values() for name in names}
        assert len(running) == count - len(state.releasing)
        for member in group.members:
            group.release(member)
    # each wave is taken in one generation and given in the next
    assert rounds <= 2 * (10 + changes_leader * 10)
    group.rebalance()
    assert sum(map(len, group.owned().values())) == count
    assert group.owned()["m-0"] == []


def test_a_drained_shard_goes_to_its_ready_standby_first() -> None:
    group = settled(30, "a", "b", "c", standbys=1)
    ready = sorted(name for name in group.members["a"].held if name in group.members["b"].standbys)[
        :2
    ]
    state = group.members["b"]
    group.members["b"] = replace(state, standbys={name: name in ready for name in state.standbys})
    group.drain("a")

    group.rebalance()
    assert set(group.members["a"].releasing) & set(ready)
    # it goes on standing by until it has it
    for name in group.members["a"].releasing.keys() & set(ready):
        assert group.members["b"].standbys[name]
    gone = group.members["a"].releasing.keys() & set(ready)
    group.release("a")
    group.rebalance()
    assert gone <= group.members["b"].held.keys()


def test_a_generation_gives_or_takes_so_that_nothing_released_waits_for_one_that_gains() -> None:
    group = settled(12, "a", "b")
    group.leave("b")
    group.join("c")
    group.join("d")

    gives = group.rebalance()
    # were "a" to release what others should have, that would wait until they have gained what was "b"'s
    assert len(group.owned()["a"]) == 6
    assert {each.again_ms for each in gives.assignments.values()} == {AFTER_GIVING_MS}
    takes = group.rebalance()
    assert len(group.members["a"].releasing) == 2
    assert {each.again_ms for each in takes.assignments.values()} == {AFTER_TAKING_MS}
    group.release("a")
    last = group.rebalance()
    assert [*map(len, group.owned().values())] == [4, 4, 4]
    assert {each.again_ms for each in last.assignments.values()} == {None}


def test_all_come_back_at_once_only_as_long_as_there_is_something_to_hand_over() -> None:
    group = settled(40, "a")
    group.join("b")
    group.drain("a")
    times = []
    while group.members["a"].held or group.members["a"].releasing:
        takes = group.rebalance().assignments["b"].again_ms
        # what is still being released is asked for by its owner, once it is
        slow = group.rebalance().assignments["b"].again_ms
        group.release("a")
        times.append((takes, slow, group.rebalance().assignments["b"].again_ms))
    assert times == [(AFTER_TAKING_MS, None, AFTER_GIVING_MS)] * 9 + [(AFTER_TAKING_MS, None, None)]


def test_no_rounds_are_made_for_a_static_member_that_misses_all_it_is_told() -> None:
    group = PaperGroup(checked_shards([f"s{number}" for number in range(8)]))
    group.join("a", MemberState(instance_id="i"))
    group.join("b", MemberState())
    group.settle()
    group.join("c")
    told = [group.rebalance(deaf=["a"]) for _ in range(6)]

    assert told[0].assignments["b"].again_ms == AFTER_TAKING_MS
    assert [each.assignments["b"].again_ms for each in told[-3:]] == [None] * 3
    assert told[-1].assignments["b"].pending
    assert told[-1].next_rebalance is not None
    member = group.config.member
    assert told[-1].next_rebalance[0] == member.session_timeout_ms + member.heartbeat_interval_ms
    # it lives, and had missed what it was told
    group.rebalance()
    assert group.members["a"].releasing
    group.release("a")
    group.settle()
    assert sorted(map(len, group.owned().values())) == [2, 3, 3]


def test_if_all_drain_everything_is_released_at_once() -> None:
    group = settled(30, "a", "b")
    group.drain("a")
    group.drain("b")

    done = group.rebalance()

    assert group.owned() == {"a": [], "b": []}
    assert set(done.plan.unplaceable.values()) == {"no member takes shards: all are draining"}


def test_shard_that_no_other_member_can_own_is_released_last() -> None:
    group = PaperGroup(
        checked_shards(
            [Shard("g", needs=frozenset({"gpu"})), *(f"s-{number}" for number in range(9))]
        )
    )
    group.join("a", MemberState(capabilities=frozenset({"gpu"})))
    group.settle()
    group.join("b")
    group.drain("a")
    for _ in range(20):
        group.rebalance()
        group.release("a")
        if len(group.members["a"].held) > 1:
            assert "g" in group.members["a"].held

    assert group.owned()["a"] == []
    assert len(group.owned()["b"]) == 9


def test_the_owner_that_dies_is_followed_by_its_ready_standbys() -> None:
    group = settled(40, "a", "b", "c", "d", standbys=1)
    group.get_ready()
    held = group.leave("a").held
    ready = {
        name
        for member, state in group.members.items()
        for name, is_ready in state.standbys.items()
        if is_ready and name in held
    }
    before = {member: set(state.standbys) for member, state in group.members.items()}

    done = group.rebalance()

    assert ready == held.keys()
    to_standby = [name for name in held if name in before[done.plan.targets[name]]]
    # all are even afterwards, too, so not every standby can have all that it stood by for
    assert len(to_standby) >= len(held) - 1
    assert sorted(map(len, group.owned().values())) == [13, 13, 14]


def test_the_bytes_of_the_group_are_those_of_kafkas_record_or_a_few_more() -> None:
    group = PaperGroup(checked_shards([f"s-{number}" for number in range(100)]))
    for number in range(20):
        name = f"worker-{number}-0f0f0f0f-aaaa-bbbb-cccc-ddddeeeeffff"
        group.join(name, MemberState(client_id="crawler", instance_id=f"host-{number}"))
    group.settle()
    metadata = {member: encode_member(state) for member, state in group.members.items()}
    members = {member: decode_member(data) for member, data in metadata.items()}

    done = assigned(group.shards, members, generation=group.generation + 1)

    record = GroupMetadataValue(
        protocol_type="crawler",
        generation=3,
        protocol="shards",
        leader=min(metadata),
        members=tuple(
            MemberMetadata(
                member_id=member,
                group_instance_id=members[member].instance_id,
                client_id="crawler",
                client_host="/192.168.100.100",
                subscription=data,
                assignment=done.encoded[member],
            )
            for member, data in metadata.items()
        ),
    )
    exact = len(write_value(record))
    assert exact <= done.bytes == record_bytes(members, done.encoded) <= exact * 1.1


def test_a_group_that_is_too_large_keeps_what_it_has_and_says_what_helps() -> None:
    shards = checked_shards([f"{number:x}-{'x' * 50}" for number in range(100)])
    held = {shard.name: epoch_of(1, 1) for shard in shards[:50]}
    member = decode_member(encode_member(MemberState(held=held)))

    warned = assigned(shards, {"a": member}, config=shard_config(group_record_max_bytes=10_500))
    assert warned.error is None
    assert "of the 10500 bytes of group.record.max.bytes" in warned.warnings[0]
    assert len(warned.assignments["a"].owned) == 100

    refused = assigned(shards, {"a": member}, config=shard_config(group_record_max_bytes=5_000))
    assert refused.error is not None
    assert "several groups make it smaller, so nothing was planned" in str(refused.error)
    assert refused.assignments["a"].owned == held
    assert refused.assignments["a"].error == str(refused.error)
    assert assigned(shards, {"a": member}).warnings == ()


def test_weights_are_told_to_owners_as_long_as_there_is_room() -> None:
    shards = checked_shards([Shard("heavy", 2.5), Shard("long-", 0.5), "plain"])
    members = {"a": MemberState(), "b": MemberState()}
    told = assigned(shards, members)
    weights = {
        name: value for each in told.assignments.values() for name, value in each.weights.items()
    }
    assert weights == {"heavy": 2.5, "long-": 0.5}
    for member, each in told.assignments.items():
        assert decode_assignment(told.encoded[member]) == each
        assert each.weights.keys() <= each.owned.keys()

    many = checked_shards([Shard(f"{number}x", 1 + number) for number in range(200)])
    fitting = assigned(many, members)
    room = shard_config(group_record_max_bytes=fitting.bytes)
    tight = assigned(many, members, config=room)
    assert not any(each.weights for each in tight.assignments.values()), "over 80 % with them"
    assert tight.bytes < fitting.bytes
    assert tight.error is None
    # those of the last list, if there is none now
    kept = assigned(None, {"a": MemberState(held={"heavy": 5})}, memory=told.memory)
    assert kept.assignments["a"].weights == {"heavy": 2.5}


def test_the_leader_asks_for_a_rebalance_when_loads_are_due_again() -> None:
    shards = checked_shards(["x", "y"])
    silent = {"a": MemberState()}
    telling = {"a": MemberState(held={"x": 5}, loads={"x": 3.0})}
    first = assign_shards(shards, silent, 1, 1, LeaderMemory(), CONFIG, 1_000)
    assert first.next_rebalance is None

    second = assign_shards(shards, telling, 2, 1, first.memory, CONFIG, 101_000)
    assert second.next_rebalance == (200_000, "time to balance the loads")
    third = assign_shards(shards, telling, 3, 1, second.memory, CONFIG, 301_000)
    assert third.next_rebalance == (300_000, "time to balance the loads")


def test_a_history_moves_only_what_its_plans_say() -> None:
    group = settled(24, *(f"m-{number}" for number in range(5)))
    group.moved.clear()

    group.leave("m-0")
    group.settle()
    assert group.moved == []

    group.join("m-0'")
    done = group.rebalance()
    assert len(group.moved) == done.plan.moves == 4
    group.settle()
    assert len(group.moved) == 4


def after(count: int, *, missed: bool = False) -> Rounds:
    rounds = Rounds()
    for _ in range(count):
        rounds = rounds.next(at_rest=False, news=False, missed=missed)
    return rounds


def test_members_come_back_at_once_after_shards_were_taken_and_soon_after_some_were_given() -> None:
    assert after(1).again_ms(gives=False) == AFTER_TAKING_MS
    assert after(1).again_ms(gives=True) == AFTER_GIVING_MS


def test_each_missed_assignment_doubles_the_time() -> None:
    waits = [after(count, missed=True).again_ms(gives=False) for count in range(10)]
    assert waits == [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000]
    assert (
        after(3, missed=True).next(at_rest=False, news=False, missed=False).again_ms(gives=False)
        == 10
    )


def test_group_that_never_comes_to_rest_is_slowed_down() -> None:
    assert after(ROUNDS_IN_A_ROW).again_ms(gives=False) == AFTER_TAKING_MS
    assert after(ROUNDS_IN_A_ROW + 1).again_ms(gives=False) == 2 * AFTER_TAKING_MS
    assert after(ROUNDS_IN_A_ROW + 1_000).again_ms(gives=True) == LATEST_MS


def test_rest_and_news_begin_a_new_row() -> None:
    long = after(ROUNDS_IN_A_ROW + 5)
    for at_rest, news in ((True, False), (False, True)):
        assert long.next(at_rest=at_rest, news=news, missed=False) == Rounds()


def test_a_member_has_missed_an_assignment_if_it_knows_only_an_older_one() -> None:
    members = {"a": MemberState(Progress(1, 7)), "b": MemberState(Progress(1, 6))}
    assert was_missed(members, {"a": 0, "b": 0}, 8)
    assert not was_missed(members, {"a": 0}, 8), "b is new"
    assert not was_missed(members, {"a": 0, "b": 0}, 7)
