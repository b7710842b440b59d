"""Who had which partition, and what moved."""

from random import Random

from groupsdk.history.explain.assignments import AssignmentRow, MoveRow, PartitionOwners, named
from groupsdk.history.explain.timeline.member import Member, Partitions
from groupsdk.history.explain.timeline.rows import MemberRow


def has(
    seq: int,
    member_id: str,
    *partitions: int,
    phase: str = "final",
    protocol: str = "classic",
    topic: str = "t",
) -> AssignmentRow:
    """Let a member have partitions of one topic; its client is the first letter of its id."""
    assigned: Partitions = ((topic, partitions),) if partitions else ()
    member = Member(member_id, None, member_id[0], "/h", 1, 1, assigned=assigned)
    row = MemberRow("g", protocol, seq, seq + 1, 1000 * seq, phase, member, 7, seq)
    return AssignmentRow(row, assigned)


def moves(*rows: AssignmentRow) -> list[tuple[int, int, str, str, int]]:
    """Tell what moved: generation, partition, from whom to whom, and when that one had it last."""
    owners = PartitionOwners()
    found: list[MoveRow] = []
    for row in rows:
        owners.take(row, found)
    return [
        (each.of.seq, each.partition, each.from_member, each.of.member.member_id, each.from_seq)
        for each in found
    ]


def test_a_partition_moves_from_whoever_had_it_last() -> None:
    assert moves(
        has(0, "a1", 0, 1),
        has(1, "a1", 0),
        has(2, "a1", 0),
        has(2, "b1", 1),
        has(3, "a2", 0),
        has(3, "z9", 0, phase="revoking"),
    ) == [(2, 1, "a1", "b1", 0), (3, 0, "a1", "a2", 2)]


def test_one_that_was_away_has_to_get_its_partitions_back() -> None:
    assert moves(has(0, "a", 0), has(1, "b", 0), has(2, "a", 0)) == [
        (1, 0, "a", "b", 0),
        (2, 0, "b", "a", 1),
    ]
    # nobody had it meanwhile
    assert moves(has(0, "a", 0), has(1, "b"), has(2, "a", 0)) == []


def test_partitions_of_share_groups_have_no_owner() -> None:
    assert moves(*(has(seq, f"m{seq}", 0, protocol="share") for seq in range(3))) == []


def test_two_that_have_the_same_one_take_it_from_each_other_every_time() -> None:
    rows = [has(seq, member_id, 0) for seq in range(2) for member_id in "ab"]
    assert moves(*rows) == [(0, 0, "a", "b", 0), (1, 0, "b", "a", 0), (1, 0, "a", "b", 1)]


def test_moves_agree_with_a_look_at_every_partition() -> None:
    random = Random(5)
    for _ in range(200):
        last: dict[tuple[str, int], tuple[str, int]] = {}
        expected = []
        rows = []
        shares: dict[str, list[int]] = {}
        for seq in range(12):
            if random.random() < 0.6:
                shares = {member_id: [] for member_id in random.sample("abcdef", 3)}
                for number in range(6):
                    if random.random() < 0.9:
                        shares[random.choice([*shares])].append(number)
            for member_id, numbers in shares.items():
                rows.append(has(seq, member_id, *numbers))
                for number in numbers:
                    owner, at = last.get(("t", number), (member_id, 0))
                    if owner != member_id:
                        expected.append((seq, number, owner, member_id, at))
                    last["t", number] = member_id, seq
        assert moves(*rows) == expected


def test_names_take_the_place_of_ids_where_they_are_known() -> None:
    assigned = (("id", (1, 2)), ("other", (3,)))
    assert named(assigned, "consumer", {"id": "name"}) == (("name", (1, 2)), ("other", (3,)))
    assert named(assigned, "consumer", {}) is assigned
    # a topic may be called what another one's id is
    assert named(assigned, "classic", {"id": "name"}) is assigned
