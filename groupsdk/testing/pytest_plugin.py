"""Give tests a Kafka broker: the fixture `kafka_broker`, once the plugin is installed with the library.

A test takes the broker by its name, and says by the marker of the same name what it is to be like::

    @pytest.mark.kafka_broker(topics={"orders": 3}, nodes=2)
    def test_orders(kafka_broker):
        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest


if TYPE_CHECKING:
    from groupsdk.broker.embedded import EmbeddedBroker


_PACKAGES = {"groupsdk", "assignors"}


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Keep pytest from rewriting the assertions of this library (a hook of pytest).

    pytest rewrites every module of a distribution that has a plugin. It parses each module on its first
    import, which takes time, and fails on Python 3.11 when two threads of the library import at once: "SystemError: AST
    constructor recursion depth mismatch".
    """
    hook = getattr(early_config.pluginmanager, "rewrite_hook", None)
    # pytest has a function to add modules, mark_rewrite, but none to remove them
    marked = getattr(hook, "_must_rewrite", None)
    if isinstance(marked, set):
        marked -= _PACKAGES


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker `kafka_broker` (a hook of pytest)."""
    config.addinivalue_line(
        "markers",
        "kafka_broker(settings, *, topics, nodes, ...): configures the fixture kafka_broker;"
        " takes the arguments of groupsdk.broker.embedded.EmbeddedBroker",
    )


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> "Iterator[EmbeddedBroker]":
    """A new embedded broker for each test; clients connect to `kafka_broker.bootstrap_servers`."""
    from groupsdk.broker.embedded import EmbeddedBroker

    marker = request.node.get_closest_marker("kafka_broker")
    args, keywords = ((), {}) if marker is None else (marker.args, marker.kwargs)
    with EmbeddedBroker(*args, **keywords) as broker:
        yield broker
