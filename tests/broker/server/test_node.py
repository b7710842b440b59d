"""Tests a node's addresses, and that it comes back where it was."""

from typing import Any

import pytest

from groupsdk.broker.server.listener import Limits, node_addresses
from groupsdk.broker.server.node import Node
from groupsdk.broker.settings.table import BrokerConfig
from groupsdk.errors import ConfigError
from tests.broker.rig import ClusterRig


def node(position: int = 0, nodes: int = 1, **settings: Any) -> Node:
    """Makes a node that does not listen."""
    rig = ClusterRig(**settings)
    addresses = node_addresses(rig.cluster.config, position, nodes)
    return Node(1, rig.cluster, Limits(BrokerConfig()), addresses)


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
    other = node(1, 2, **settings)
    other.bind()
    assert other.endpoint("PLAINTEXT")[0] == "127.0.0.1"
    assert other.listener_names == ["PLAINTEXT"]
    other.stop()


def test_each_node_is_where_the_settings_say_if_they_name_all() -> None:
    settings: dict[str, Any] = {
        "listeners": "PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.2:0,TWO://127.0.0.1:0",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,TWO:PLAINTEXT",
        "advertised_listeners": "PLAINTEXT://proxy.invalid:98,PLAINTEXT://proxy.invalid:99",
    }
    for position, port in ((0, 98), (1, 99)):
        made = node(position, 2, **settings)
        assert made.endpoint("PLAINTEXT") == ("proxy.invalid", port)
        assert made.listener_names == ["PLAINTEXT", "TWO"]
        assert [each.host for each in made.addresses] == [f"127.0.0.{position + 1}", "127.0.0.1"]
    with pytest.raises(ConfigError, match="listeners names PLAINTEXT 2 times for 3 node"):
        node(0, 3, **settings)
    del settings["listeners"], settings["listener_security_protocol_map"]
    with pytest.raises(
        ConfigError, match=r"advertised\.listeners names PLAINTEXT 2 times for 1 node"
    ):
        node(**settings)


def test_fetch_sessions_end_with_the_node() -> None:
    made = node(max_incremental_fetch_session_cache_slots="7")
    sessions = made.fetch_sessions
    assert made.fetch_sessions is sessions
    made.stop()
    assert made.fetch_sessions is not sessions
