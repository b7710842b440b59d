"""A cluster with groups, and the page that shows it."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from groupsdk.admin.cluster import ClusterClient
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.connect.rest.settings import RestSettings
from groupsdk.errors import ConfigError
from groupsdk.web.page import ClusterPage
from groupsdk.web.server import PageServer


@dataclass(frozen=True, slots=True)
class Shown:
    broker: EmbeddedBroker
    server: PageServer


async def what_if(client: ClusterClient, group_id: str, assignor: str) -> str:
    if group_id == "none":
        raise ConfigError("group 'none' has no members that read topics")
    return f"{assignor} would move nothing in {group_id}"


def page_of(broker: EmbeddedBroker) -> ClusterPage:
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    return ClusterPage(settings, interval_s=0.05, assignors=["range", "sticky"], what_if=what_if)


@pytest.fixture
def shown() -> Iterator[Shown]:
    """An embedded broker and its page."""
    with (
        EmbeddedBroker(topics={"t": 4}) as broker,
        PageServer(page_of(broker), RestSettings(port=0)) as server,
    ):
        yield Shown(broker, server)
