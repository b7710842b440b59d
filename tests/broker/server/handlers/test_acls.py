"""Tests rules from the client's side: made, listed, heeded by every family of requests, and removed."""

from collections.abc import Iterator

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.wire.messages.connection import SaslAuthenticateRequest, SaslHandshakeRequest
from groupsdk.wire.messages.group_admin import DeleteGroupsRequest, ListGroupsRequest
from groupsdk.wire.messages.groups import HeartbeatRequest
from groupsdk.wire.messages.metadata import (
    FindCoordinatorRequest,
    MetadataRequest,
    MetadataRequestTopic,
)
from groupsdk.wire.messages.security import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from groupsdk.wire.messages.transactions import InitProducerIdRequest
from tests.broker.clients import Client, batch, connect, join, join_request, produce


@pytest.fixture
def guarded() -> Iterator[EmbeddedBroker]:
    """A broker with an authorizer; root may do everything."""
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "authorizer.class.name": "standard",
        "super.users": "User:root",
    }
    with EmbeddedBroker(settings, users={"root": "r", "app": "a"}, topics=["t", "u"]) as broker:
        yield broker


def log_in(broker: EmbeddedBroker, user: str) -> Client:
    """Connects as a user."""
    client = connect(broker)
    assert client.ask(SaslHandshakeRequest("PLAIN"), 1).error_code == 0
    message = f"\0{user}\0{user[0]}".encode()
    assert client.ask(SaslAuthenticateRequest(message), 2).error_code == 0
    return client


def allow(root: Client, resource: int, name: str, operation: int, pattern: int = 3) -> int:
    """Lets the user app do something."""
    creation = AclCreation(resource, name, pattern, "User:app", "*", operation, 3)
    return root.ask(CreateAclsRequest((creation,)), 3).results[0].error_code


def test_each_family_of_requests_heeds_the_rules(guarded: EmbeddedBroker) -> None:
    with log_in(guarded, "root") as root, log_in(guarded, "app") as app:
        assert app.ask(MetadataRequest(None), 12).topics == ()
        named = MetadataRequest((MetadataRequestTopic(name="t"),))
        assert app.ask(named, 12).topics[0].error_code == 29
        assert produce(app, "t", batch(b"v")).error_code == 29
        assert app.ask(join_request("g"), 9).error_code == 30
        assert app.ask(HeartbeatRequest("g", 1, "m"), 4).error_code == 30
        found = app.ask(FindCoordinatorRequest(coordinator_keys=("g",)), 4)
        assert found.coordinators[0].error_code == 30
        assert app.ask(InitProducerIdRequest("x", 1000), 4).error_code == 53
        assert app.ask(InitProducerIdRequest(None, 1000), 4).error_code == 31
        assert app.ask(DeleteGroupsRequest(("g",)), 2).results[0].error_code == 30
        assert app.ask(DescribeAclsRequest(1, None, 1, None, None, 1, 1), 3).error_code == 31
        assert allow(app, 2, "t", 3) == 31

        assert allow(root, 2, "t", 4) == 0
        assert allow(root, 3, "g", 3, pattern=4) == 0

        assert produce(app, "t", batch(b"v")).error_code == 0
        assert produce(app, "u", batch(b"v")).error_code == 29
        assert [each.name for each in app.ask(MetadataRequest(None), 12).topics] == ["t"]
        assert app.ask(InitProducerIdRequest(None, 1000), 4).error_code == 0
        join(app, "group")
        join(root, "other")
        assert [each.group_id for each in app.ask(ListGroupsRequest(), 5).groups] == ["group"]


def test_rules_are_listed_and_removed(guarded: EmbeddedBroker) -> None:
    everything = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
    with log_in(guarded, "root") as root:
        assert allow(root, 2, "t", 3) == 0
        assert allow(root, 2, "t", 4) == 0
        assert allow(root, 9, "t", 4) == 42
        (resource,) = root.ask(everything, 3).resources
        assert (resource.resource_type, resource.resource_name) == (2, "t")
        assert sorted(each.operation for each in resource.acls) == [3, 4]

        wanted = DeleteAclsFilter(2, "t", 3, None, None, 3, 1)
        (result,) = root.ask(DeleteAclsRequest((wanted,)), 3).filter_results
        assert [each.operation for each in result.matching_acls] == [3]
        (resource,) = root.ask(everything, 3).resources
        assert [each.operation for each in resource.acls] == [4]


def test_without_an_authorizer_there_are_no_rules(client: Client) -> None:
    asked = DescribeAclsRequest(1, None, 1, None, None, 1, 1)
    answer = client.ask(asked, 3)
    assert answer.error_code == 54
    assert answer.error_message == "No Authorizer is configured on the broker"
    assert allow(client, 2, "t", 3) == 54
    wanted = DeleteAclsFilter(2, "t", 3, None, None, 3, 1)
    (result,) = client.ask(DeleteAclsRequest((wanted,)), 3).filter_results
    assert result.error_code == 54


@pytest.mark.parametrize(
    "asked",
    [
        DescribeAclsRequest(0, None, 3, None, None, 2, 3),
        DescribeAclsRequest(2, None, 0, None, None, 2, 3),
        CreateAclsRequest((AclCreation(2, "t", 3, "User:app", "*", 0, 3),)),
        DeleteAclsRequest((DeleteAclsFilter(2, "t", 3, None, None, 2, 0),)),
    ],
)
def test_an_element_that_is_unknown_ends_the_connection_as_in_kafka(
    guarded: EmbeddedBroker,
    asked: DescribeAclsRequest | CreateAclsRequest | DeleteAclsRequest,
) -> None:
    with log_in(guarded, "root") as root:
        root.send(asked, 3)
        assert root.is_closed()
