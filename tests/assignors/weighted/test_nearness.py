"""Test who is in a rack of a partition's replicas."""

from assignors.weighted.plan import Nearness


REPLICAS = {"t": [frozenset("a"), frozenset("ab"), frozenset("z")]}


def test_members_in_a_rack_of_the_replicas() -> None:
    near = Nearness(["a", "b", None, "c"], REPLICAS, {"t": 0b1111, "u": 0b1111})

    assert [near.members("t", partition) for partition in range(3)] == [0b0001, 0b0011, 0]
    assert near.members("u", 0) == 0


def test_nearness_covers_subscribers_only() -> None:
    near = Nearness(["a", "a"], REPLICAS, {"t": 0b10})

    assert near.members("t", 0) == 0b10


def test_off_rack_is_who_is_elsewhere_while_another_is_there() -> None:
    near = Nearness(["a", "b", None], REPLICAS, {"t": 0b111})

    assert [near.is_off_rack("t", 0, member) for member in range(3)] == [False, True, False]
    assert not near.is_off_rack("t", 2, 0)


def test_without_racks_it_is_false() -> None:
    assert not Nearness([], REPLICAS, {"t": 1})
    assert not Nearness([None], REPLICAS, {"t": 1})
    assert Nearness(["a"], REPLICAS, {"t": 1})
    assert Nearness([], REPLICAS, {"t": 1}).members("t", 0) == 0
