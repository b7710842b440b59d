"""Tests who is named as a coordinator."""

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.wire.messages.metadata import FindCoordinatorRequest, MetadataRequest
from tests.broker.clients import Client


def test_every_version_names_the_coordinator(broker: EmbeddedBroker, client: Client) -> None:
    host, port = broker.bootstrap_servers.split(":")
    for version in range(7):
        if version < 4:
            old = client.ask(FindCoordinatorRequest("g"), version)
            assert (old.error_code, old.node_id, old.host, old.port) == (0, 1, host, int(port))
        else:
            asked = FindCoordinatorRequest(coordinator_keys=("g", "h"))
            new = client.ask(asked, version).coordinators
            assert [(each.key, each.node_id, each.error_code) for each in new] == [
                ("g", 1, 0),
                ("h", 1, 0),
            ]


def test_the_internal_topic_comes_with_the_first_question(client: Client) -> None:
    def topics() -> set[str | None]:
        return {each.name for each in client.ask(MetadataRequest(None), 12).topics}

    assert topics() == {"t"}
    client.ask(FindCoordinatorRequest("g"), 3)
    assert topics() == {"t", "__consumer_offsets"}
    client.ask(FindCoordinatorRequest("x", key_type=1), 3)
    assert topics() == {"t", "__consumer_offsets", "__transaction_state"}


def test_share_keys_and_empty_ids_have_no_coordinator(client: Client) -> None:
    share = client.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=("g:x:0",)), 6)
    assert (share.coordinators[0].error_code, share.coordinators[0].node_id) == (42, -1)
    assert client.ask(FindCoordinatorRequest("", key_type=1), 3).error_code == 42
