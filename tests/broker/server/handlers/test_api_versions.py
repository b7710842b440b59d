"""Tests what a client is told of the APIs."""

from groupsdk.broker.server.apis import APIS
from groupsdk.wire.messages.connection import ApiVersionsRequest
from tests.broker.clients import Client


def test_all_that_is_served_is_named(client: Client) -> None:
    for version in range(5):
        answer = client.ask(ApiVersionsRequest("c", "1.0"), version)
        ranges = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        assert ranges.keys() == APIS.keys()
        assert ranges[0] == (0, 13)
        assert ranges[11] == (0, 9)


def test_features_that_old_clients_cannot_read_are_not_shown_to_them(client: Client) -> None:
    new = client.ask(ApiVersionsRequest("c", "1"), 4)
    assert {each.name: each.max_version for each in new.supported_features} == {
        "group.version": 1,
        "transaction.version": 2,
    }
    old = client.ask(ApiVersionsRequest("c", "1"), 3)
    assert old.supported_features == ()
    for answer in (new, old):
        finalized = {each.name: each.max_version_level for each in answer.finalized_features}
        assert finalized == {"group.version": 1, "transaction.version": 2}


def test_a_client_without_a_proper_name_is_refused(client: Client) -> None:
    for name, version in (("", "1"), ("a b", "1"), ("a", "-"), ("ä", "1")):
        answer = client.ask(ApiVersionsRequest(name, version), 3)
        assert answer.error_code == 42
    assert client.ask(ApiVersionsRequest(), 2).error_code == 0
