"""Tests settings being shown and changed."""

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.log.config import FIXED
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from groupsdk.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupsdk.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
)
from groupsdk.wire.messages.incremental_alter_configs import (
    AlterableConfig as Change,
    AlterConfigsResource as ChangedResource,
    IncrementalAlterConfigsRequest,
)
from groupsdk.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.broker.clients import Client, batch, connect, produce


def described(
    client: Client, kind: int = 2, name: str = "t", keys: tuple[str, ...] | None = None
) -> DescribeConfigsResult:
    """Describes a resource."""
    asked = (DescribeConfigsResource(kind, name, keys),)
    return client.ask(DescribeConfigsRequest(asked, include_synonyms=True), 4).results[0]


def values(client: Client) -> dict[str, str | None]:
    """Returns the settings of t."""
    return {each.name: each.value for each in described(client).configs}


def change(client: Client, *changes: Change, kind: int = 2, name: str = "t") -> int:
    """Changes single settings; returns the error."""
    asked = IncrementalAlterConfigsRequest((ChangedResource(kind, name, changes),))
    return client.ask(asked, 1).responses[0].error_code


def test_settings_of_a_topic_tell_where_they_come_from() -> None:
    with EmbeddedBroker({"log.retention.bytes": 9_999}) as broker:
        broker.create_topic("t", 1, {"retention.ms": "5000"})
        with connect(broker) as client:
            found = {each.name: each for each in described(client).configs}
            assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("5000", 1)
            assert [each.source for each in found["retention.ms"].synonyms] == [1, 5]
            bytes_ = found["retention.bytes"]
            assert (bytes_.value, bytes_.config_source) == ("9999", 4)
            assert found["segment.bytes"].config_source == 5
            only = described(client, keys=("segment.bytes",)).configs
            assert [(each.name, each.config_type) for each in only] == [("segment.bytes", 3)]


def test_settings_of_a_broker_are_shown_without_secrets() -> None:
    settings = {"ssl.key.password": "hush", "group.max.size": 5}
    with EmbeddedBroker(settings) as broker, connect(broker) as client:
        found = {each.name: each for each in described(client, 4, "1").configs}
        chain = [(each.value, each.source) for each in found["group.max.size"].synonyms]
        assert chain == [("5", 4), ("2147483647", 5)]
        hidden = found["ssl.key.password"].synonyms
        assert [(each.value, each.source) for each in hidden] == [(None, 4)]
        assert found["group.max.size"].read_only
        assert found["ssl.key.password"].value is None
        assert found["ssl.key.password"].is_sensitive
        assert described(client, 4, "").configs == ()
        assert described(client, 4, "9").error_code == 42
        metrics = described(client, 16, "m")
        assert metrics.error_code == 42
        assert metrics.error_message == "CLIENT_METRICS 'm' has no settings here"


def test_a_group_has_no_settings_of_its_own(client: Client) -> None:
    for keys in (None, ("consumer.session.timeout.ms",)):
        group = described(client, 32, "g", keys)
        assert (group.error_code, group.configs) == (0, ())
    nameless = described(client, 32, "")
    assert (nameless.error_code, nameless.error_message) == (42, "a group needs a name")


def test_settings_are_changed_one_by_one(client: Client) -> None:
    assert (
        change(client, Change("retention.ms", 0, "5000"), Change("segment.bytes", 0, "2000000"))
        == 0
    )
    assert (values(client)["retention.ms"], values(client)["segment.bytes"]) == ("5000", "2000000")
    assert change(client, Change("retention.ms", 1, None)) == 0
    assert values(client)["retention.ms"] == "604800000"
    assert change(client, Change("cleanup.policy", 2, "compact")) == 0
    assert values(client)["cleanup.policy"] == "delete,compact"
    assert change(client, Change("cleanup.policy", 3, "delete")) == 0
    assert values(client)["cleanup.policy"] == "compact"


def test_wrong_changes_change_nothing(client: Client) -> None:
    before = values(client)
    assert change(client, Change("retention.ms", 0, "soon")) == 40
    assert change(client, Change("no.such", 0, "1")) == 40
    assert change(client, Change("retention.ms", 2, "1")) == 40
    assert change(client, Change("retention.ms", 0, None)) == 42
    assert change(client, Change("retention.ms", 0, "1"), name="none") == 3
    assert change(client, Change("group.max.size", 0, "1"), kind=4, name="1") == 42
    trial = IncrementalAlterConfigsRequest(
        (ChangedResource(2, "t", (Change("retention.ms", 0, "1"),)),), validate_only=True
    )
    assert client.ask(trial, 1).responses[0].error_code == 0
    assert values(client) == before


def test_all_settings_are_replaced_at_once(client: Client) -> None:
    change(client, Change("retention.ms", 0, "5000"))
    configs = (AlterableConfig("segment.bytes", "2000000"),)
    asked = AlterConfigsRequest((AlterConfigsResource(2, "t", configs),))
    assert client.ask(asked, 2).responses[0].error_code == 0
    assert (values(client)["retention.ms"], values(client)["segment.bytes"]) == (
        "604800000",
        "2000000",
    )


def test_a_change_holds_for_a_log_in_use(client: Client) -> None:
    records = batch(b"x" * 2_000)
    assert produce(client, "t", records).error_code == 0
    change(client, Change("max.message.bytes", 0, "1000"))
    assert produce(client, "t", records).error_code == 10


def test_what_has_settings_is_listed() -> None:
    with EmbeddedBroker(nodes=2, topics={"t": 1}) as broker, connect(broker) as client:

        def listed(version: int, *types: int) -> set[tuple[str, int]]:
            answer = client.ask(ListConfigResourcesRequest(types), version)
            assert answer.error_code == 0
            return {(each.resource_name, each.resource_type) for each in answer.config_resources}

        assert listed(1) == {("t", 2), ("1", 4), ("2", 4)}
        assert listed(1, 2) == {("t", 2)}
        assert listed(1, 8, 16, 32) == set()
        assert listed(0) == set()
        assert client.ask(ListConfigResourcesRequest((2, 77)), 1).error_code == 35


def test_what_does_not_exist_here_is_shown_for_reading(client: Client) -> None:
    found = {each.name: each for each in described(client).configs}
    fixed = found["remote.storage.enable"]
    assert (fixed.value, fixed.read_only, fixed.config_source) == ("false", True, 5)
    assert not found["retention.ms"].read_only
    for key, operation, value in (
        ("remote.storage.enable", 0, "true"),
        ("leader.replication.throttled.replicas", 2, "0:1"),
    ):
        assert change(client, Change(key, operation, value)) == 40
    assert change(client, Change("compression.zstd.level", 0, "3")) == 0
    assert {each.name: each.value for each in described(client).configs} == {
        name: each.value for name, each in found.items()
    }


def test_a_topic_has_the_settings_of_kafka(client: Client, kafka: LocalKafka) -> None:
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    with Client((host, int(port))) as other:
        topic = CreatableTopic("settings", 1, 1)
        assert other.ask(CreateTopicsRequest((topic,))).topics[0].error_code in {0, 36}
        theirs = {each.name: each for each in described(other, name="settings").configs}
    ours = {each.name: each for each in described(client).configs}
    assert {name: each.config_type for name, each in ours.items()} == {
        name: each.config_type for name, each in theirs.items()
    }
    assert {name: ours[name].value for name in FIXED} == {
        name: theirs[name].value for name in FIXED
    }


def test_a_setting_of_a_broker_comes_from_where_it_does_in_kafka(
    client: Client, kafka: LocalKafka
) -> None:
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    with Client((host, int(port))) as other:
        theirs = {
            each.name: each for node in ("0", "1") for each in described(other, 4, node).configs
        }
    compared = set()
    for each in described(client, 4, "1").configs:
        there = theirs.get(each.name)
        if there is None or (there.value, there.config_source) != (each.value, each.config_source):
            continue  # this broker's own, or set for the test
        compared.add(each.name)
        assert each.synonyms == there.synonyms, each.name
    assert len(compared) > 20
