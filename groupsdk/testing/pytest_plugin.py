"""Give tests a Kafka broker: the fixture `kafka_broker`, once the plugin is installed with the library.

A test takes the broker by its name, and says by the marker of the same name what it is to be like::

    @pytest.mark.kafka_broker(topics={"orders": 3}, nodes=2)
    def test_orders(kafka_broker):
        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING

import pytest


if TYPE_CHECKING:
    from groupsdk.broker.embedded import EmbeddedBroker


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "kafka_broker(settings, *, topics, nodes, ...): what the fixture kafka_broker is to be like;"
        " takes the arguments of groupsdk.broker.embedded.EmbeddedBroker",
    )


@cache
def _import_the_broker() -> None:
    """Import here what the broker's thread would import when it is first asked for.

    pytest parses the modules of packages with plugins to rewrite their assertions, and Python 3.11 cannot parse on two
    threads at once: "SystemError: AST constructor recursion depth mismatch".
    """
    import groupsdk.broker as package

    for module in walk_packages(package.__path__, f"{package.__name__}."):
        import_module(module.name)


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> "Iterator[EmbeddedBroker]":
    """A broker of this process, new for each test; `kafka_broker.bootstrap_servers` is where it listens."""
    from groupsdk.broker.embedded import EmbeddedBroker

    _import_the_broker()
    marker = request.node.get_closest_marker("kafka_broker")
    args, keywords = ((), {}) if marker is None else (marker.args, marker.kwargs)
    with EmbeddedBroker(*args, **keywords) as broker:
        yield broker
