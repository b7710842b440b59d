"""Tests who is asked whether a client may do something."""

from groupsdk.broker.authorizer import Acl
from groupsdk.broker.server.call import allowed, cluster_allowed, operations
from tests.broker.rig import ClusterRig
from tests.broker.server.calls import StandInConnection, call_of


def test_without_an_authorizer_everything_is_allowed() -> None:
    call = call_of(StandInConnection(ClusterRig()), 3, 12)
    assert allowed(call, "delete", "topic", "t")
    assert cluster_allowed(call, "alter")
    assert operations(call, "group", "g", asked=True) == 0b110101001000
    assert operations(call, "group", "g", asked=False) == -(2**31)


def test_with_one_it_decides() -> None:
    rig = ClusterRig(authorizer_class_name="standard", super_users="User:root")
    app = call_of(StandInConnection(rig, principal="User:app"), 3, 12)
    root = call_of(StandInConnection(rig, principal="User:root"), 3, 12)
    assert not allowed(app, "read", "topic", "t")
    assert allowed(root, "read", "topic", "t")
    assert not cluster_allowed(app, "alter")
    assert operations(app, "topic", "t", asked=True) == 0
    authorizer = rig.cluster.authorizer
    assert authorizer is not None
    authorizer.add([Acl(2, "t", 3, "User:app", "127.0.0.1", 3, 3)])
    assert allowed(app, "read", "topic", "t")
    assert operations(app, "topic", "t", asked=True) == 1 << 3 | 1 << 8
