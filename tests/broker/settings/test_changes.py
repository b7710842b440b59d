"""Tests changes of brokers' settings while they run, with a real Kafka beside it."""

from collections.abc import Callable

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    IncrementalAlterableConfig as Change,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource as ChangedResource,
)
from groupsdk.wire.messages.metadata import MetadataRequest
from tests.broker.clients import Client, connect, eventually
from tests.broker.server.handlers.test_configs import change, described


_REFUSED = "Cannot update these configs dynamically"
FIXED = [
    ("1", "process.roles", "broker"),
    ("", "process.roles", "broker"),
    ("1", "node.id", "3"),
    ("1", "log.dirs", "/elsewhere"),
    ("1", "log.retention.hours", "3"),
    ("", "num.partitions", "3"),
    ("1", "group.share.max.size", "5"),
]
KEPT = [
    ("1", "max.connections", "100000"),
    ("", "max.connections", "100000"),
    ("", "max.connections.per.ip", "100000"),
]


def changed(client: Client, name: str, *changes: Change) -> tuple[int, str | None]:
    """Changes settings of a broker; returns the error."""
    asked = IncrementalAlterConfigsRequest((ChangedResource(4, name, changes),))
    answer = client.ask(asked, 1).responses[0]
    return answer.error_code, answer.error_message


def check_refusals(client: Client) -> None:
    """Changes what Kafka does not change while it runs."""
    for name, key, value in FIXED:
        found = changed(client, name, Change(key, 0, value))
        assert found == (42, f"{_REFUSED}: [{key}]"), (name, key)
    both = changed(client, "1", Change("process.roles", 0, "x"), Change("node.id", 0, "3"))
    assert both == (42, f"{_REFUSED}: [node.id, process.roles]")
    # there is nothing to delete
    assert changed(client, "1", Change("process.roles", 1, None))[0] == 0
    configs = (AlterableConfig("process.roles", "broker"),)
    replaced = client.ask(AlterConfigsRequest((AlterConfigsResource(4, "1", configs),)), 2)
    assert replaced.responses[0].error_message == f"{_REFUSED}: [process.roles]"
    for value in ("-1", "many"):
        assert change(client, Change("max.connections", 0, value), kind=4, name="1") == 42


def check_kept(client: Client) -> None:
    """Changes what Kafka changes while it runs; ends as it began."""
    for name, key, value in KEPT:

        def own(name: str = name, key: str = key) -> list[str]:
            configs = described(client, 4, name, (key,)).configs
            return [each.name for each in configs if each.config_source in {2, 3}]

        before = own()
        assert changed(client, name, Change(key, 0, value)) == (0, None), (name, key)
        eventually(own, [key])
        assert changed(client, name, Change(key, 1, None)) == (0, None)
        eventually(own, before)


@pytest.mark.parametrize("check", [check_refusals, check_kept])
class TestChanges:
    """The same changes here and with Kafka."""

    def test_setting_changes_on_the_embedded_broker(
        self, client: Client, check: Callable[[Client], None]
    ) -> None:
        check(client)

    def test_setting_changes_on_kafka(
        self, kafka: LocalKafka, check: Callable[[Client], None]
    ) -> None:
        with connect(kafka) as client:
            check(client)


@pytest.mark.parametrize(
    "key", ["ssl.keystore.location", "listeners", "num.io.threads", "setting.of.a.plugin"]
)
def test_a_change_without_effect_is_refused(client: Client, key: str) -> None:
    assert changed(client, "1", Change(key, 0, "9")) == (42, f"{_REFUSED}: [{key}]")


def test_identity_settings_of_a_broker_follow_from_its_start() -> None:
    with EmbeddedBroker(nodes=2) as broker, connect(broker, 2) as client:
        found = {each.name: each for each in described(client, 4, "2").configs}
        for name, value in (
            ("node.id", "2"),
            ("broker.id", "2"),
            ("process.roles", "broker,controller"),
        ):
            assert (found[name].value, found[name].config_source) == (value, 4)


def is_accepted(client: Client) -> bool:
    """Returns whether a connection is served."""
    try:
        return bool(client.ask(MetadataRequest(()), 12).brokers)
    except ConnectionError:
        return False


@pytest.mark.parametrize("key", ["max.connections", "max.connections.per.ip"])
def test_the_limit_of_connections_changes_while_the_broker_runs(key: str) -> None:
    with EmbeddedBroker() as broker, connect(broker) as one, connect(broker) as two:
        assert is_accepted(two)
        assert changed(one, "", Change(key, 0, "2")) == (0, None)
        assert is_accepted(two)  # connections that are open stay
        with connect(broker) as third:
            assert not is_accepted(third)
        assert changed(one, "", Change(key, 0, "3")) == (0, None)
        with connect(broker) as third:
            assert is_accepted(third)
        # the changed limit outlives a restart, and goes with its setting
        assert changed(one, "", Change(key, 0, "1")) == (0, None)
        broker.restart()
        with connect(broker) as first:
            assert is_accepted(first)
            with connect(broker) as second:
                assert not is_accepted(second)
            assert changed(first, "", Change(key, 1, None)) == (0, None)
            with connect(broker) as second:
                assert is_accepted(second)
