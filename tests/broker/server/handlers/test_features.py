"""Tests that levels of features are changed and kept, with a real Kafka beside it."""

from groupsdk.broker.catalogue import SUPPORTED_FEATURES, finalized_epoch, finalized_levels
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.api_versions import ApiVersionsRequest
from groupsdk.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.clients import Client, connect


TRANSACTIONS = "transaction.version"
UPGRADE, SAFE, UNSAFE = 1, 2, 3


def update(
    client: Client, *updates: FeatureUpdateKey, version: int = 2, validate_only: bool = False
) -> int:
    """Updates features; returns the error."""
    request = UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)
    answer = client.ask(request, version)
    assert (answer.error_message is None) == (answer.error_code == 0)
    told = [] if version > 1 or answer.error_code else [each.feature for each in updates]
    assert [each.feature for each in answer.results] == told
    return answer.error_code


def level(client: Client) -> int:
    """Returns the level of transactions that is in force."""
    answer = client.ask(ApiVersionsRequest("test", "1"), 4)
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    return levels.get(TRANSACTIONS, 0)


def check_updates(client: Client) -> None:
    """Changes levels up and down; ends with the level that it began with."""
    key = FeatureUpdateKey
    assert level(client) == 2
    assert update(client) == 0
    for version in (0, 1, 2):
        assert update(client, key(TRANSACTIONS, 2), version=version) == 0
    for wrong in (
        key(TRANSACTIONS, 3),
        key(TRANSACTIONS, -1),
        key(TRANSACTIONS, 1),  # down without saying so
        key(TRANSACTIONS, 1, upgrade_type=7),
        key("no.such", 1),
        key("no.such", 0, upgrade_type=SAFE),
    ):
        assert update(client, wrong) == 95, wrong
        assert update(client, key(TRANSACTIONS, 1, upgrade_type=SAFE), wrong) == 95, wrong
    assert level(client) == 2
    for kind in (SAFE, UNSAFE):
        assert update(client, key(TRANSACTIONS, 1, upgrade_type=kind), validate_only=True) == 0
    assert level(client) == 2
    assert update(client, key(TRANSACTIONS, 1, upgrade_type=SAFE)) == 0


def test_levels_change_all_or_none_and_last() -> None:
    with EmbeddedBroker() as broker:
        with connect(broker) as client:
            check_updates(client)
            assert level(client) == 1
        broker.restart()
        catalogue = broker._running().cluster.catalogue
        assert finalized_levels(catalogue)[TRANSACTIONS] == 1
        assert finalized_epoch(catalogue) == 1
        assert SUPPORTED_FEATURES[TRANSACTIONS] == (0, 2)
        with connect(broker) as client:
            assert level(client) == 1
            old = FeatureUpdateKey(TRANSACTIONS, 0, allow_downgrade=True)
            assert update(client, old, version=0) == 0
            assert level(client) == 0
            assert update(client, FeatureUpdateKey(TRANSACTIONS, 2)) == 0
            assert level(client) == 2


def test_kafka_answers_the_same(kafka: LocalKafka) -> None:
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    with Client((host, int(port))) as client:
        try:
            check_updates(client)
        finally:
            assert update(client, FeatureUpdateKey(TRANSACTIONS, 2)) == 0
