"""Tests users being made, used, listed and removed."""

import hashlib

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.wire.messages.security import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from tests.broker.clients import Client


def upsertion(
    name: str = "u", mechanism: int = 1, iterations: int = 4096
) -> ScramCredentialUpsertion:
    """Builds a credential as a client does."""
    salted = hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", max(iterations, 1))
    return ScramCredentialUpsertion(name, mechanism, iterations, b"salt", salted)


def alter(
    client: Client,
    *upsertions: ScramCredentialUpsertion,
    deletions: tuple[ScramCredentialDeletion, ...] = (),
) -> dict[str, int]:
    """Changes credentials; returns the error of each user."""
    answer = client.ask(AlterUserScramCredentialsRequest(deletions, upsertions), 0)
    return {each.user: each.error_code for each in answer.results}


def test_users_are_made_listed_and_removed(client: Client) -> None:
    assert alter(client, upsertion(), upsertion(mechanism=2), upsertion("v")) == {"u": 0, "v": 0}
    found = client.ask(DescribeUserScramCredentialsRequest(None), 0).results
    assert {each.user: [i.mechanism for i in each.credential_infos] for each in found} == {
        "u": [1, 2],
        "v": [1],
    }
    assert alter(client, deletions=(ScramCredentialDeletion("v", 1),)) == {"v": 0}
    asked = DescribeUserScramCredentialsRequest((UserName("v"), UserName("u"), UserName("u")))
    answers = client.ask(asked, 0).results
    assert [(each.user, each.error_code) for each in answers] == [("v", 91), ("u", 92)]


def test_wrong_credentials_leave_a_user_as_it_was(client: Client) -> None:
    assert alter(client, upsertion(iterations=100)) == {"u": 93}
    assert alter(client, upsertion(iterations=1_000_000)) == {"u": 93}
    assert alter(client, upsertion(name="")) == {"": 93}
    assert alter(client, deletions=(ScramCredentialDeletion("", 1),)) == {"": 93}
    assert alter(client, upsertion(mechanism=3)) == {"u": 33}
    assert alter(client, upsertion(), upsertion()) == {"u": 92}
    assert alter(client, deletions=(ScramCredentialDeletion("u", 1),)) == {"u": 91}
    assert client.ask(DescribeUserScramCredentialsRequest(None), 0).results == ()


def test_users_outlast_a_restart(broker: EmbeddedBroker, client: Client) -> None:
    from tests.broker.clients import connect

    alter(client, upsertion())
    broker.restart()
    with connect(broker) as again:
        assert len(again.ask(DescribeUserScramCredentialsRequest(None), 0).results) == 1
