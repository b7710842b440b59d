"""Incarnations in a topic, on the embedded broker."""

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its types miss its __all__
    AdminClient,
    ConfigResource,
)

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.shards.callbacks import ClockEpochStore, EpochStore, EpochStoreError
from groupsdk.shards.config import ShardConfig
from groupsdk.shards.epoch_topic import TopicEpochStore, open_store


pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def store(broker: EmbeddedBroker, topic: str) -> TopicEpochStore:
    config = ShardConfig.of(
        bootstrap_servers=broker.bootstrap_servers, group_id="g", epoch_topic=topic
    )
    made = open_store(config)
    assert isinstance(made, TopicEpochStore)
    return made


def test_numbers_rise_for_each_group_through_new_stores(broker: EmbeddedBroker) -> None:
    first = store(broker, "rising")
    assert first.advance("g", 100) == 100
    assert first.advance("g", 5) == 101
    assert first.advance("other", 7) == 7
    assert store(broker, "rising").advance("g", 50) == 102
    assert store(broker, "rising").advance("g", 500) == 500


def test_the_topic_is_compacted_and_has_one_partition(broker: EmbeddedBroker) -> None:
    store(broker, "made").advance("g", 1)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    assert len(admin.list_topics("made").topics["made"].partitions) == 1
    resource = ConfigResource(ConfigResource.Type.TOPIC, "made")
    (config,) = (each.result(30) for each in admin.describe_configs([resource]).values())
    assert config["cleanup.policy"].value == "compact"


def test_two_writers_at_once_get_different_numbers(broker: EmbeddedBroker) -> None:
    store(broker, "raced").advance("g", 1)
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(store(broker, "raced").advance("g", 1)))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == len(set(found)) == 6


def test_epoch_records_of_other_programs_are_ignored(broker: EmbeddedBroker) -> None:
    assert store(broker, "odd").advance("g", 3) == 3
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for key, value in ((b"g", b"short"), (b"g", None), (None, b"x"), (b"\xff", b"123456789")):
        producer.produce("odd", key=key, value=value, partition=0)
    assert producer.flush(30) == 0
    assert store(broker, "odd").advance("g", 1) == 4


def test_without_a_broker_it_is_an_error_that_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupsdk.shards.epoch_topic._TIMEOUT_MS", 300)
    config = ShardConfig.of(bootstrap_servers="127.0.0.1:1", group_id="g")
    with pytest.raises(EpochStoreError, match="groupsdk-shard-epochs") as raised:
        open_store(config).advance("g", 1)
    assert raised.value.retriable


def test_without_a_topic_the_clock_decides() -> None:
    config = ShardConfig.of({"bootstrap.servers": "a:1", "group.id": "g", "epoch.topic": None})
    made = open_store(config)
    assert isinstance(made, ClockEpochStore)
    assert made.advance("g", 17) == 17


def test_without_the_rights_the_clock_decides_and_a_warning_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "authorizer.class.name": "standard",
        "super.users": "User:root",
    }
    with EmbeddedBroker(settings, users={"root": "r", "app": "a"}) as broker:

        def open_as(user: str) -> EpochStore:
            return open_store(
                ShardConfig.of(
                    bootstrap_servers=broker.bootstrap_servers,
                    group_id="g",
                    security_protocol="SASL_PLAINTEXT",
                    sasl_mechanism="PLAIN",
                    sasl_username=user,
                    sasl_password=user[0],
                )
            )

        forbidden = open_as("app")
        assert [forbidden.advance("g", number) for number in (5, 5)] == [5, 5]
        warnings = [each.message for each in caplog.records if "epoch.topic" in each.message]
        assert len(warnings) == 1
        assert "group=g" in warnings[0]
        assert open_as("root").advance("g", 5) == 5, "the forbidden one has recorded nothing"
        assert open_as("app").advance("g", 5) == 5, "it may not read either"
