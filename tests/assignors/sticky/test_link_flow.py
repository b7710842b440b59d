"""The cheapest flow along lists of readers; whole groups are compared with the exact solver in test_plan."""

import pytest

from assignors.sticky.blocks import Block
from assignors.sticky.link_flow import LinkFlow
from assignors.sticky.links import Holdings, Links
from assignors.sticky.transport import Prices


_NEAR: frozenset[int] = frozenset()


def test_a_detour_that_moves_less_is_found() -> None:
    # Member 0 owns too much of row 0, which 1 and 2 read; 2 has room, and 1 got of row 0 what nobody owned.
    links = Links([(0, 1, 2), (1, 2)], [_NEAR, _NEAR])
    holdings = Holdings([3, 1, 0], [{0: 3}, {1: 1}, {}].__getitem__)
    flow = LinkFlow(
        links, holdings, Block([0, 1, 2], 2, 3), {0: 5, 1: 1}, Prices(move=1), [{}, {0: 2}, {}]
    )

    flow.run()

    # 1 gives what it does not own, for nothing; 0 gives one of its own.
    assert holdings.lost == [{0: 1}, {}, {}]
    assert holdings.extra == [{}, {0: 1}, {0: 2}]


def test_racks_come_at_their_price() -> None:
    # Row 0 is far from member 0, which owns it; member 1 owns row 1, far from it.
    links = Links([(0, 1), (0, 1)], [frozenset({0}), frozenset({1})])
    for prices, lost in (
        (Prices(move=1, off_rack=9), [{0: 1}, {1: 1}]),
        (Prices(move=9, off_rack=1), [{}, {}]),
    ):
        holdings = Holdings([1, 1], [{0: 1}, {1: 1}].__getitem__)
        LinkFlow(links, holdings, Block([0, 1], 1, 2), {0: 1, 1: 1}, prices, None).run()
        assert holdings.lost == lost


def test_no_room_is_an_error() -> None:
    holdings = Holdings([3, 0], [{0: 3}, {}].__getitem__)
    flow = LinkFlow(
        Links([(0,)], [_NEAR]), holdings, Block([0, 1], 2, 1), {0: 3}, Prices(), [{}, {}]
    )
    with pytest.raises(RuntimeError, match="no room for all partitions of a block"):
        flow.run()
