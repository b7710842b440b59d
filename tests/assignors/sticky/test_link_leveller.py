"""Levelling along lists ends with the same loads and blocks as levelling with sets of bits."""

import random

from assignors.sticky.bits import bitset, positions
from assignors.sticky.blocks import Block, find_blocks
from assignors.sticky.levelling import Leveller
from assignors.sticky.link_leveller import LinkLeveller
from assignors.sticky.links import Holdings, Links


def _both(
    readers: list[tuple[int, ...]], owned: list[dict[int, int]]
) -> tuple[list[Block], list[Block], LinkLeveller]:
    loads = [sum(own.values()) for own in owned]
    dense = Leveller(
        [bitset(each) for each in readers], owned, [dict(own) for own in owned], list(loads)
    )
    holdings = Holdings(loads, owned.__getitem__)
    sparse = LinkLeveller(Links(readers, [frozenset()] * len(readers)), holdings)
    everyone = range(len(owned))
    return find_blocks(dense, everyone), find_blocks(sparse, everyone), sparse


def _loads(blocks: list[Block]) -> list[int]:
    return sorted(
        block.level - (place >= block.longer)
        for block in blocks
        for place in range(len(block.members))
    )


def test_the_loads_are_the_same() -> None:
    for seed in range(500):
        chance = random.Random(seed)
        members = range(chance.randint(1, 12))
        readers = [
            tuple(sorted(chance.sample(members, chance.randint(1, len(members)))))
            for _ in range(chance.randint(1, 10))
        ]
        owned: list[dict[int, int]] = [{} for _ in members]
        for row, audience in enumerate(readers):
            for _ in range(chance.randint(0, 3)):
                # mostly the first one, so that loads are uneven
                member = audience[0] if chance.random() < 0.7 else chance.choice(audience)
                owned[member][row] = owned[member].get(row, 0) + chance.randint(1, 4)

        dense, sparse, leveller = _both(readers, owned)

        # Where loads are next to each other two blocks may be one as well.
        assert _loads(sparse) == _loads(dense), seed
        for block in sparse:
            found = sorted(leveller.loads[member] for member in block.members)
            assert found == _loads([block]), seed
        assert sum(leveller.loads) == sum(sum(own.values()) for own in owned)


def test_long_chains_are_levelled_too() -> None:
    # What the last member lacks comes from all others, through those between: shortest paths alone would take
    # a round for each length.
    size = 200
    readers: list[tuple[int, ...]] = [(member, member + 1) for member in range(size - 1)]
    owned = [{member: 50} for member in range(size - 1)] + [{}]

    dense, sparse, leveller = _both(readers, owned)

    assert _loads(sparse) == _loads(dense)
    assert max(leveller.loads) - min(leveller.loads) == 1


def test_what_is_reached_is_told() -> None:
    holdings = Holdings([4, 0, 1], [{0: 4}, {}, {1: 1}].__getitem__)
    leveller = LinkLeveller(Links([(0, 1), (2,)], [frozenset()] * 2), holdings)

    assert positions(leveller.level([0, 1, 2], 1)) == [0, 1]
    assert leveller.loads == [3, 1, 1]
    assert leveller.before == [{}, {}, {}]
    assert leveller.level([0, 1], 2) == 0
    assert leveller.loads == [2, 2, 1]
