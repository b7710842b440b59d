"""A transport keeps its sets in step with what lies where."""

import random

from assignors.sticky.min_cost_flow import Prices, Transport
from assignors.sticky.partition_rows import Counts
from tests.support.cases import each_case


def _transport(chance: random.Random, *, racks: bool) -> tuple[Transport, list[int], list[Counts]]:
    members, rows = chance.randint(1, 6), chance.randint(1, 5)
    readers = [chance.getrandbits(members) | 1 for _ in range(rows)]
    far = [chance.getrandbits(members) & each if racks else 0 for each in readers]
    owned: list[Counts] = [
        {
            row: chance.randint(1, 3)
            for row in range(rows)
            if readers[row] >> member & 1 and chance.random() < 0.6
        }
        for member in range(members)
    ]
    sizes = [20] * rows
    transport = Transport(readers, far, sizes, owned, 4, members // 2, Prices(1, 7))
    return transport, far, owned


def _check(transport: Transport, far: list[int], owned: list[Counts]) -> None:
    """Work out every step from the shares alone."""
    result = transport.result()
    for member, share in enumerate(result):
        for row in range(len(far)):
            side = 2 * (far[row] >> member & 1)
            have, own = share.get(row, 0), owned[member].get(row, 0)
            open_steps = {
                (name, index)
                for name, group in (("up", transport.ups), ("down", transport.downs))
                for index, steps in enumerate(group)
                if steps.by_row[row] >> member & 1
            }
            for group in (transport.ups, transport.downs):
                for steps in group:
                    assert steps.by_row[row] >> member & 1 == steps.by_member[member] >> row & 1
            expected = {("up", side + 1)} if have < own else set()
            expected |= {("down", side)} if have > own else set()
            expected |= {("down", side + 1)} if 0 < have <= own else set()
            assert open_steps - {("up", 0), ("up", 2)} == expected
            room = own - have if have < own else None
            assert transport.room(row, member) == room


@each_case("seed", range(60))
def test_sets_follow_changes(seed: int) -> None:
    chance = random.Random(seed)
    transport, far, owned = _transport(chance, racks=bool(seed & 1))
    _check(transport, far, owned)
    for _ in range(40):
        row, member = chance.randrange(len(far)), chance.randrange(len(owned))
        giving = transport.result()[member].get(row, 0)
        if giving and chance.random() < 0.5:
            stock = transport.limit(row, (member + 1) % len(owned), member)
            assert stock
            transport.change(row, member, -min(stock, chance.randint(1, giving)))
        else:
            room = transport.room(row, member)
            transport.change(row, member, chance.randint(1, room or 3))
        _check(transport, far, owned)


def test_starts_with_everything_at_home_but_off_rack() -> None:
    transport = Transport(
        [0b11, 0b11], [0b01, 0], [5, 4], [{0: 2, 1: 1}, {0: 3}], 5, 1, Prices(1, 9)
    )
    assert transport.result() == [{1: 1}, {0: 3}]
    assert transport.supply == [2, 3, 0]
    # Member 1 has most and may have 5; member 0 has the made-up row, and room for 3 more.
    assert transport.excess == [-3, -2]
    assert [steps.price for steps in transport.ups] == [1, 0, 10, 9]
