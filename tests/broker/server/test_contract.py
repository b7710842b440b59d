"""Tests that the parts of the server offer what their contracts promise; mypy compares the types."""

from inspect import getmembers

from groupsdk.broker.server.connection import Connection
from groupsdk.broker.server.contract import Acceptor, FaultScript, Responder, ServingNode
from groupsdk.broker.server.faults import Faults
from groupsdk.broker.server.listener import Listener
from groupsdk.broker.server.node import Node


def as_contracts(
    connection: Connection, listener: Listener, node: Node, faults: Faults
) -> tuple[Responder, Acceptor, ServingNode, FaultScript]:
    """Only type checkers read this."""
    return connection, listener, node, faults


def test_a_connection_has_the_methods_of_its_contract() -> None:
    promised = {name for name, _ in getmembers(Responder) if not name.startswith("_")}
    assert promised
    assert promised <= set(dir(Connection))
