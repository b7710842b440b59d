"""A call without a network, for tests of what handlers are made of."""

from types import SimpleNamespace
from typing import Any, cast

from groupsdk.broker.server.call import Call, Route, route
from groupsdk.wire.schema import Response
from tests.broker.rig import ClusterRig


class StandInConnection:
    """Takes answers instead of sending them."""

    def __init__(
        self, rig: ClusterRig, node_id: int = 1, principal: str = "User:ANONYMOUS"
    ) -> None:
        self.node = SimpleNamespace(node_id=node_id, cluster=rig.cluster, authentication=None)
        self.principal = principal
        self.client_host = "/127.0.0.1"
        self.peer = "127.0.0.1"
        self.listener_name = "PLAINTEXT"
        self.closed = False
        self.answers: list[Any] = []
        self.went_on = 0

    def answered(self, call: Call, response: Response) -> None:
        self.answers.append(response)

    def go_on(self) -> None:
        """Counts the requests without an answer."""
        self.went_on += 1


def call_of(connection: StandInConnection, api_key: int, version: int) -> Call:
    found = cast("Route", route(api_key, version))
    return Call(cast("Any", connection), found, 7, "c", 100)
