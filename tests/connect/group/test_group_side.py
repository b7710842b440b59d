"""Holds both kinds of membership to what a worker needs."""

import pytest

from groupsdk.connect.group.coordinator import ConnectCoordinator, WorkerMembership
from groupsdk.connect.group.local_group import LocalGroup


@pytest.mark.parametrize("kind", [ConnectCoordinator, LocalGroup])
def test_nothing_is_missing(kind: type) -> None:
    needed = {name for name in vars(WorkerMembership) if not name.startswith("_")} - {"margin_ms"}
    assert "held_until_ms" in needed
    assert {name for name in needed if not hasattr(kind, name)} == set()
