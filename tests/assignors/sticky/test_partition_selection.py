"""Numbers become partitions."""

from assignors.sticky.ownership import Ownership
from assignors.sticky.partition_rows import PartitionRows
from assignors.sticky.partition_selection import select_partitions


def test_partition_given_away_by_one_member_goes_to_another() -> None:
    ownership = Ownership([{"t": [3, 1, 0]}, {}, {"u": [0]}], [3, 0, 1], {"t": [2]})
    found = select_partitions(ownership, {0: {1: 2}}, {0: {0: 1}})
    assert found.revoked == {"t": [3]}
    assert found.added == {1: {"t": (2, 3)}}
    assert found.holdings == [{"t": (0, 1)}, {"t": (2, 3)}, {"u": (0,)}]
    assert ownership.owned[0] == {"t": [3, 1, 0]}
    assert ownership.free == {"t": [2]}


def test_unchanged_holding_is_returned_as_it_is() -> None:
    own = {"t": (0, 1)}
    assert select_partitions(Ownership([own], [2], {}, holdings={0}), {}, {}).holdings[0] is own


def test_untouched_claim_becomes_a_sorted_holding() -> None:
    own = {"u": [1, 0], "t": (0,), "v": ()}
    (holding,) = select_partitions(Ownership([own], [3], {}), {}, {}).holdings
    assert list(holding.items()) == [("t", (0,)), ("u", (0, 1))]
    assert own == {"u": [1, 0], "t": (0,), "v": ()}


def test_rows_do_not_mix() -> None:
    # One topic whose partitions lie in two rows, as they do where racks matter.
    rows = PartitionRows([2, 2], [3, 3], [0, 0], {}, {"t": [0, 1, 0, 1]})
    ownership = Ownership([{"t": [0, 1]}, {}], [2, 0], {"t": [2, 3]})
    holdings = select_partitions(ownership, {0: {1: 1}, 1: {0: 1}}, {}, rows).holdings
    assert holdings == [{"t": (0, 1, 3)}, {"t": (2,)}]


def test_a_row_that_is_given_away_is_dealt_as_that_row() -> None:
    rows = PartitionRows([2, 2], [3, 3], [0, 0], {}, {"t": [0, 1, 0, 1]})
    ownership = Ownership([{"t": [0, 1, 2]}, {"t": [3]}], [3, 1], {})
    holdings = select_partitions(ownership, {0: {1: 1}}, {0: {0: 1}}, rows).holdings
    assert holdings == [{"t": (0, 1)}, {"t": (2, 3)}]
