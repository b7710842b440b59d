"""Tests the leaders that an answer names."""

from groupsdk.broker.server.call import LeaderHints
from tests.broker.rig import ClusterRig
from tests.broker.server.calls import StandInConnection, call_of


def test_leaders_are_named_once_with_their_addresses() -> None:
    rig = ClusterRig(nodes=3, topics={"t": 3}, broker_rack="r")
    hints = LeaderHints(call_of(StandInConnection(rig), 0, 10))
    topic = rig.cluster.catalogue.topics["t"]
    assert hints.endpoints() == []
    assert hints.leader(topic, 1) == (2, 0)
    assert hints.leader(topic, 1) == (2, 0)
    assert hints.endpoints() == [(2, "PLAINTEXT.invalid", 2, "r")]
    rig.nodes[2].running = False
    assert hints.endpoints() == []
