"""Tests a node's addresses, and that it comes back where it was."""

from typing import Any

import pytest

from groupsdk.broker.config import BrokerConfig
from groupsdk.broker.server.listener import Limits
from groupsdk.broker.server.node import Node
from groupsdk.errors import ConfigError
from tests.broker.rig import ClusterRig


def node(*, first: bool = True, **settings: Any) -> Node:
    """Makes a node that does not listen."""
    rig = ClusterRig(**settings)
    return Node(1, rig.cluster, Limits(BrokerConfig()), first=first)


def test_the_port_is_known_once_it_is_taken_and_stays() -> None:
    made = node()
    assert made.endpoint("PLAINTEXT") == ("127.0.0.1", 0)
    made.bind()
    host, port = made.endpoint("PLAINTEXT")
    assert port > 0
    made.stop()
    made.bind()
    assert made.endpoint("PLAINTEXT") == (host, port)
    made.stop()
    assert made.ports == {"PLAINTEXT": port}
    again = node()
    again.known_ports({"PLAINTEXT": port})
    again.bind()
    assert again.endpoint("PLAINTEXT") == (host, port)
    with pytest.raises(ConfigError, match="in use"):
        made.bind()
    again.stop()


def test_only_the_first_node_is_where_the_settings_say() -> None:
    settings: dict[str, Any] = {"advertised_listeners": "PLAINTEXT://proxy.invalid:99"}
    assert node(**settings).endpoint("PLAINTEXT") == ("proxy.invalid", 99)
    other = node(first=False, **settings)
    other.bind()
    assert other.endpoint("PLAINTEXT")[0] == "127.0.0.1"
    assert other.listener_names == ["PLAINTEXT"]
    other.stop()


def test_fetch_sessions_end_with_the_node() -> None:
    made = node(max_incremental_fetch_session_cache_slots="7")
    sessions = made.fetch_sessions
    assert made.fetch_sessions is sessions
    made.stop()
    assert made.fetch_sessions is not sessions
