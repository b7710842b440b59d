"""Tests what a test can see of a running broker."""

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.groups.state import GroupState
from groupsdk.broker.inspection import committed_offsets, group_views
from tests.broker.clients import Client, join
from tests.broker.rig import ClusterRig
from tests.broker.test_coordinators import commit


def test_groups_are_seen_as_they_are(broker: EmbeddedBroker, client: Client) -> None:
    assert dict(broker.groups) == {}
    member = join(client, "g")
    join(client, "another")
    assert set(broker.groups) == {"g", "another"}
    group = broker.groups["g"]
    assert (group.state, group.generation_id, group.leader_id) == (
        GroupState.STABLE,
        member.generation_id,
        member.member_id,
    )
    (seen,) = group.members.values()
    assert (seen.client_id, seen.client_host, seen.assignment) == ("test", "/127.0.0.1", b"mine")


def test_what_is_seen_cannot_be_changed() -> None:
    rig = ClusterRig(topics={"t": 1})
    commit(rig, "g", 5)
    views = group_views(rig.cluster)
    assert views["g"].state is GroupState.EMPTY
    with pytest.raises(TypeError):
        views["h"] = views["g"]  # type: ignore[index]  # that is what is tested
    assert {place: each.offset for place, each in committed_offsets(rig.cluster, "g").items()} == {
        ("t", 0): 5
    }
    assert committed_offsets(rig.cluster, "none") == {}
