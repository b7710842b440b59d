"""Holds a group of one."""

from groupsdk.connect.group.local_group import LocalGroup
from groupsdk.connect.group.work import Work
from groupsdk.connect.store.config_backing_store import ClusterConfigState
from groupsdk.wire.connect_protocol import ConnectorTaskId
from tests.connect.group.test_coordinator import Listener


A0 = ConnectorTaskId("a", 0)


def test_local_group_owns_everything_and_leads() -> None:
    listener = Listener()
    configs = [ClusterConfigState(1, {"a": {}}, {A0: {}}, {"a": 1})]
    group = LocalGroup(listener, lambda: configs[-1], lambda: 7)
    assert (group.view().is_leader, group.view().leader_url) == (False, None)
    group.poll(0)
    ((given, generation),) = listener.told
    assert (given.connectors, given.tasks, given.offset, generation) == (("a",), (A0,), 1, 7)
    assert (group.view().is_leader, group.view().leader_url) == (True, "")
    assert group.holds_for(10**9)
    group.poll(0)
    assert len(listener.told) == 1
    configs.append(ClusterConfigState(2))
    group.request_rejoin("configurations changed")
    group.poll(10)
    assert listener.told[1] == Work(("a",), (A0,))
    assert listener.told[2][1] == 8
    stable = group.view().generation
    assert stable is not None
    assert stable.generation_id == 8


def test_local_group_is_assigned_again_after_leaving() -> None:
    listener = Listener()
    group = LocalGroup(listener, lambda: ClusterConfigState(1, {"a": {}}))
    group.poll(0)
    group.leave_group("there is a reason")
    assert listener.told[-1] == Work(("a",), ())
    group.poll(0)
    given, generation = listener.told[-1]
    assert (given.connectors, generation) == (("a",), 2)


def test_at_the_end_everything_is_given_up() -> None:
    listener = Listener()
    group = LocalGroup(listener, lambda: ClusterConfigState(1, {"a": {}}))
    group.poll(0)
    group.close()
    assert listener.told[-1] == Work(("a",), ())
    assert group.view().generation is None
