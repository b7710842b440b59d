"""The random part of member ids."""

from itertools import islice
from uuid import RFC_4122, UUID

from groupsdk.broker.coordinators import random_uuids


def test_each_one_is_another_random_uuid() -> None:
    made = list(islice(random_uuids(), 1_000))

    assert len(set(made)) == len(made)
    for text in made:
        assert str(UUID(text)) == text
        assert UUID(text).version == 4
        assert UUID(text).variant == RFC_4122
    assert {text[19] for text in made} == set("89ab")


def test_every_bit_that_is_free_is_random() -> None:
    ones = zeros = 0
    for text in islice(random_uuids(), 1_000):
        ones |= UUID(text).int
        zeros |= ~UUID(text).int

    fixed = UUID("00000000-0000-f000-c000-000000000000").int
    assert ones & zeros & (1 << 128) - 1 == (1 << 128) - 1 & ~fixed
