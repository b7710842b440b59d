"""As much is moved down as can be, and no more."""

import random

from assignors.sticky.bitsets import bitset, positions
from assignors.sticky.max_flow import MaxFlowBalancer
from assignors.sticky.partition_rows import Counts
from tests.support.cases import each_case


def _none(members: int) -> list[Counts]:
    return [{} for _ in range(members)]


def _chain(members: int, loads: list[int]) -> MaxFlowBalancer:
    """Member i reads rows i and i + 1, and has all it has of row i."""
    readers = [bitset({max(row - 1, 0), min(row, members - 1)}) for row in range(members + 1)]
    shares: list[Counts] = [{row: load} for row, load in enumerate(loads)]
    return MaxFlowBalancer(readers, [dict(share) for share in shares], shares, list(loads))


def test_moves_through_others() -> None:
    balancer = MaxFlowBalancer([0b011, 0b110], _none(3), [{0: 4}, {1: 2}, {}], [4, 2, 0])
    assert balancer.balance([0, 1, 2], 2) == 0
    assert balancer.loads == [2, 2, 2]
    assert balancer.shares == [{0: 2}, {0: 2}, {1: 2}]


def test_tells_who_is_stuck() -> None:
    balancer = MaxFlowBalancer([0b011, 0b110], _none(3), [{0: 9}, {}, {1: 1}], [9, 0, 1])
    assert balancer.balance([0, 1, 2], 3) == 0b011
    assert balancer.loads == [6, 3, 1]


def test_unowned_partition_is_placed_before_owned_ones() -> None:
    readers, owned = [0b11, 0b11], [{0: 3}, {}]
    balancer = MaxFlowBalancer(readers, owned, [{0: 3, 1: 1}, {}], [4, 0], lambda: [0b10, 0])
    assert balancer.balance([0, 1], 3) == 0
    assert balancer.shares == [{0: 3}, {1: 1}]
    assert not balancer.donors
    assert balancer.balance([0, 1], 2) == 0
    assert balancer.donors == {0}


def test_goes_the_whole_length_of_a_chain() -> None:
    # Longer than the rounds with shortest paths, and than any recursion could be.
    members = 3000
    balancer = _chain(members, [members, *[0] * (members - 1)][:members])
    balancer.shares = [{0: 5}, *({row: 2} for row in range(1, members - 1)), {}]
    balancer.loads[:] = [5, *[2] * (members - 2), 0]
    balancer.balance(range(members), 2)
    # Row 0 is read by member 0 only.
    assert balancer.loads[0] == 5
    assert balancer.loads[1:] == [2] * (members - 2) + [0]
    readers = [bitset({row, min(row + 1, members - 1)}) for row in range(members)]
    shares: list[Counts] = [{0: 5}, *({row: 2} for row in range(1, members - 1)), {}]
    balancer = MaxFlowBalancer(readers, _none(members), shares, [5, *[2] * (members - 2), 0])
    assert balancer.balance(range(members), 2)
    assert balancer.loads == [3, *[2] * (members - 1)]


@each_case("seed", range(300))
def test_moves_as_much_as_any_flow(seed: int) -> None:
    chance = random.Random(seed)
    members, rows = chance.randint(2, 9), chance.randint(1, 7)
    readers = [
        chance.sample(range(members), chance.randint(1, min(3, members))) for _ in range(rows)
    ]
    shares: list[Counts] = [{} for _ in range(members)]
    for row, those in enumerate(readers):
        for _ in range(chance.randint(0, 9)):
            member = chance.choice(those)
            shares[member][row] = shares[member].get(row, 0) + 1
    owned = [
        {row: chance.randint(1, count) for row, count in share.items() if chance.random() < 0.7}
        for share in shares
    ]
    loads = [sum(share.values()) for share in shares]
    sizes = [sum(share.get(row, 0) for share in shares) for row in range(rows)]
    part = sorted(chance.sample(range(members), chance.randint(2, members)))
    outside = {m: dict(shares[m]) for m in range(members) if m not in part}
    top = chance.randint(1, 4)
    before = [dict(share) for share in shares]
    gained = [
        bitset(row for row, count in share.items() if count > own.get(row, 0))
        for share, own in zip(shares, owned, strict=True)
    ]
    balancer = MaxFlowBalancer(list(map(bitset, readers)), owned, shares, loads, lambda: gained)
    reached = balancer.balance(part, top)

    assert sizes == [sum(share.get(row, 0) for share in shares) for row in range(rows)]
    assert loads == [sum(share.values()) for share in shares]
    assert all(m in readers[row] for m, share in enumerate(shares) for row in share)
    assert all(shares[m] == share for m, share in outside.items())
    # Nothing in what is reached has room, and no way leads out of it: no flow could move more.
    stuck = set(positions(reached))
    assert {m for m in part if loads[m] > top} <= stuck
    assert bool(reached) == bool(stuck & {m for m in part if loads[m] > top})
    for member in stuck:
        assert loads[member] >= top
        for row in shares[member]:
            assert set(readers[row]) & set(part) <= stuck
    for member, share in enumerate(shares):
        if any(share.get(row, 0) < count for row, count in owned[member].items()):
            assert member in balancer.donors
        changed = {
            row
            for row in before[member].keys() | share.keys()
            if before[member].get(row) != share.get(row)
        }
        assert changed <= balancer.moved.get(member, set())
    for row, receiver in balancer.receivers.items():
        assert shares[receiver][row] > 0
