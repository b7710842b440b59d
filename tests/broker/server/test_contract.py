"""Tests that the parts of the server offer what their contracts promise; mypy compares the types."""

from inspect import getmembers
from typing import Any

import pytest

from groupsdk.broker.server.call import Call
from groupsdk.broker.server.connection import Connection
from groupsdk.broker.server.contract import (
    Acceptor,
    FaultScript,
    PendingRequest,
    Responder,
    ServingNode,
)
from groupsdk.broker.server.faults import Faults
from groupsdk.broker.server.listener import Listener
from groupsdk.broker.server.node import Node


def as_contracts(
    call: Call, connection: Connection, listener: Listener, node: Node, faults: Faults
) -> tuple[PendingRequest, Responder, Acceptor, ServingNode, FaultScript]:
    """Only type checkers read this."""
    return call, connection, listener, node, faults


@pytest.mark.parametrize(("contract", "part"), [(PendingRequest, Call), (Responder, Connection)])
def test_a_part_has_the_methods_of_its_contract(contract: Any, part: Any) -> None:
    promised = {name for name, _ in getmembers(contract) if not name.startswith("_")}
    assert promised
    assert promised <= set(dir(part))
