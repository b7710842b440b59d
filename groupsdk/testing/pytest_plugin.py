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
    """Have pytest import this library as Python does, and not rewrite its assertions.

    pytest rewrites every module of a distribution that brings a plugin. For that it parses each when it is first
    imported, which takes time, and which fails on Python 3.11 when two threads of ours import at once: "SystemError: AST
    constructor recursion depth mismatch".
    """
    hook = getattr(early_config.pluginmanager, "rewrite_hook", None)
    # pytest has a way in, mark_rewrite, but none out.
    marked = getattr(hook, "_must_rewrite", None)
    if isinstance(marked, set):
        marked -= _PACKAGES


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "kafka_broker(settings, *, topics, nodes, ...): what the fixture kafka_broker is to be like;"
        " takes the arguments of groupsdk.broker.embedded.EmbeddedBroker",
    )


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> "Iterator[EmbeddedBroker]":
    """A broker of this process, new for each test; `kafka_broker.bootstrap_servers` is where it listens."""
    from groupsdk.broker.embedded import EmbeddedBroker

    marker = request.node.get_closest_marker("kafka_broker")
    args, keywords = ((), {}) if marker is None else (marker.args, marker.kwargs)
    with EmbeddedBroker(*args, **keywords) as broker:
        yield broker
