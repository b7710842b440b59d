"""Tests settings being shown and changed."""

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.settings.topic import FIXED
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
    IncrementalAlterableConfig as Change,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource as ChangedResource,
    ListConfigResourcesRequest,
)
from groupsdk.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.broker.clients import Client, batch, connect, eventually, produce


def described(
    client: Client, kind: int = 2, name: str = "t", keys: tuple[str, ...] | None = None
) -> DescribeConfigsResult:
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
            assert [each.source for each in found["retention.ms"].synonyms] == [1]
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
        loggers = described(client, 8, "1")
        assert loggers.error_code == 42
        assert loggers.error_message == "BROKER_LOGGER '1' has no settings"


def check_group_settings(client: Client) -> None:
    """Sets what a consumer group may set; ends as it began."""
    key = "consumer.session.timeout.ms"
    for name, changed, value, code in (
        ("g", key, "50000", 0),
        ("g", key, "600000", 40),
        ("g", key, "soon", 40),
        ("g", "no.such", "1", 40),
        ("g", "consumer.heartbeat.interval.ms", "0", 40),
        ("", key, "50000", 42),
    ):
        assert change(client, Change(changed, 0, value), kind=32, name=name) == code, (
            name,
            changed,
        )

    def shown() -> list[tuple[str | None, int]]:
        (found,) = described(client, 32, "g", (key,)).configs
        return [(each.value, each.source) for each in found.synonyms]

    eventually(lambda: shown(), [("50000", 8), ("45000", 5)])
    listed = client.ask(ListConfigResourcesRequest((32,)), 1).config_resources
    assert "g" in [each.resource_name for each in listed]
    assert change(client, Change(key, 1, None), kind=32, name="g") == 0
    eventually(lambda: shown(), [("45000", 5)])
    # Kafka describes groups that are not there, too
    found = {each.name: each for each in described(client, 32, "nobody").configs}
    assert found[key].value == "45000"
    assert (found[key].config_type, found[key].read_only) == (3, False)
    assert described(client, 32, "").error_code == 42


def test_groups_have_settings_of_their_own(client: Client) -> None:
    check_group_settings(client)


@pytest.mark.parametrize(
    ("kind", "name", "key", "code"),
    [
        (32, "g", "share.session.timeout.ms", 40),
        (32, "g", "streams.num.standby.replicas", 40),
        (16, "m", "interval.ms", 42),
    ],
)
def test_settings_of_what_is_not_served_are_refused(
    client: Client, kind: int, name: str, key: str, code: int
) -> None:
    assert change(client, Change(key, 0, "50000"), kind=kind, name=name) == code
    assert not [each for each in described(client, kind, name).configs if each.name == key]


def test_kafka_takes_the_same_settings_of_groups(kafka: LocalKafka) -> None:
    with connect(kafka) as client:
        check_group_settings(client)


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
    assert change(client, Change("x", 0, "1"), kind=8, name="1") == 42
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


def test_resources_with_settings_are_listed() -> None:
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


def test_fixed_setting_is_described_as_read_only(client: Client) -> None:
    found = {each.name: each for each in described(client).configs}
    fixed = found["remote.storage.enable"]
    assert (fixed.value, fixed.read_only, fixed.config_source) == ("false", True, 5)
    assert not found["retention.ms"].read_only
    assert change(client, Change("remote.storage.enable", 0, "true")) == 40
    assert change(client, Change("remote.storage.enable", 0, "false")) == 0
    assert {each.name: each.value for each in described(client).configs} == {
        name: each.value for name, each in found.items()
    }


def test_a_topic_has_the_settings_of_kafka(client: Client, kafka: LocalKafka) -> None:
    with connect(kafka) as other:
        topic = CreatableTopic("settings", 1, 1)
        assert other.ask(CreateTopicsRequest((topic,))).topics[0].error_code in {0, 36}
        eventually(lambda: bool(described(other, name="settings").configs), True)
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
    with connect(kafka) as other:
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


def check_broker_settings(client: Client) -> None:
    """Changes settings of the one broker there is, and of all brokers; ends as it began."""
    for name, key, value, code in (
        ("1", "num.partitions", "3", 42),
        ("9", "log.retention.ms", "1000", 42),
        ("x", "log.retention.ms", "1000", 42),
        ("1", "log.retention.ms", "abc", 42),
        ("", "log.flush.interval.messages", "0", 42),
        ("1", "log.retention.bytes", "100000", 0),
        ("", "log.retention.bytes", "200000", 0),
    ):
        assert change(client, Change(key, 0, value), kind=4, name=name) == code, (name, key)
    eventually(lambda: topic_chain(client), [("100000", 2), ("200000", 3), ("-1", 5)])
    assert change(client, Change("log.cleanup.policy", 2, "compact"), kind=4, name="1") == 0
    eventually(lambda: values(client)["cleanup.policy"], "delete,compact")
    found = {each.name: each for each in described(client, 4, "1").configs}
    kept = found["log.retention.bytes"]
    assert (kept.value, kept.config_source, kept.read_only) == ("100000", 2, False)
    assert [(each.value, each.source) for each in kept.synonyms][:2] == [
        ("100000", 2),
        ("200000", 3),
    ]
    everywhere = {each.name: each for each in described(client, 4, "").configs}
    assert everywhere["log.retention.bytes"].config_source == 3
    for name in ("1", ""):
        for key in ("log.retention.bytes", "log.cleanup.policy"):
            assert change(client, Change(key, 1, None), kind=4, name=name) == 0
    eventually(lambda: topic_chain(client), [("-1", 5)])


def topic_chain(client: Client) -> list[tuple[str | None, int]]:
    """Returns where retention.bytes of t comes from."""
    (found,) = described(client, keys=("retention.bytes",)).configs
    return [(each.value, each.source) for each in found.synonyms]


def test_settings_of_brokers_are_changed_while_they_run(client: Client) -> None:
    check_broker_settings(client)


def test_kafka_changes_settings_of_brokers_the_same(kafka: LocalKafka) -> None:
    with connect(kafka) as client:
        topic = CreatableTopic("t", 3, 1)
        assert client.ask(CreateTopicsRequest((topic,))).topics[0].error_code in {0, 36}
        check_broker_settings(client)


def test_a_changed_setting_takes_effect_and_outlives_a_restart() -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker:
        with connect(broker) as client:
            assert produce(client, "t", batch(b"v" * 2_000)).error_code == 0
            small = Change("message.max.bytes", 0, "1000")
            assert change(client, small, kind=4, name="") == 0
            assert produce(client, "t", batch(b"v" * 2_000)).error_code == 10
        broker.restart()
        with connect(broker) as client:
            assert produce(client, "t", batch(b"v" * 2_000)).error_code == 10
            assert change(client, Change("message.max.bytes", 1, None), kind=4, name="") == 0
            assert produce(client, "t", batch(b"v" * 2_000)).error_code == 0


def test_all_settings_of_a_broker_are_replaced_at_once() -> None:
    with EmbeddedBroker(topics={"t": 1}) as broker, connect(broker) as client:
        assert change(client, Change("log.roll.ms", 0, "5000"), kind=4, name="1") == 0
        configs = (AlterableConfig("log.retention.bytes", "77"),)
        asked = AlterConfigsRequest((AlterConfigsResource(4, "1", configs),))
        assert client.ask(asked, 2).responses[0].error_code == 0
        assert topic_chain(client)[0] == ("77", 2)
        assert values(client)["segment.ms"] == "604800000"


def test_types_defaults_and_documentation_are_those_of_kafka(
    client: Client, kafka: LocalKafka
) -> None:
    resources = (DescribeConfigsResource(4, "1", None), DescribeConfigsResource(2, "t", None))
    request = DescribeConfigsRequest(resources, True, True)
    with connect(kafka) as theirs:
        topic = CreatableTopic("t", 3, 1)
        assert theirs.ask(CreateTopicsRequest((topic,))).topics[0].error_code in {0, 36}
        wanted = [{e.name: e for e in each.configs} for each in theirs.ask(request, 4).results]
    compared = 0
    for found, kafkas in zip(client.ask(request, 4).results, wanted, strict=True):
        for each in found.configs:
            assert each.documentation, each.name
            real = kafkas.get(each.name)
            if real is None:
                assert each.name in OURS_ALONE, each.name
                continue
            compared += 1
            assert each.config_type == real.config_type, each.name
            assert each.is_sensitive == real.is_sensitive, each.name
            assert real.documentation
            # fewer than Kafka's can be changed while the broker runs, and one more: where Kafka has a feature
            if each.name != "group.coordinator.rebalance.protocols":
                assert each.read_only or not real.read_only, each.name
            if each.config_source == real.config_source == 5:
                assert (each.value is None) == (real.value is None), each.name
    assert compared > 100
    plain = DescribeConfigsRequest(resources[1:], False, False)
    (shown,) = client.ask(plain, 4).results
    assert all(each.documentation is None and not each.synonyms for each in shown.configs)


OURS_ALONE = {
    "allow.everyone.if.no.acl.found",  # of Kafka's authorizer, whose settings its brokers do not describe
    "group.consumer.assignor.timeout.ms",
    "group.consumer.regex.refresh.interval.ms",  # internal in Kafka
    "group.consumer.release",
    "producer.id.expiration.check.interval.ms",
    "sasl.oauthbearer.unsecured",
    "ssl.key.location",
    "super.users",
}
