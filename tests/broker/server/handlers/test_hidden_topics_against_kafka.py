"""OffsetFetch by a principal that may describe some topics only, beside a real Kafka: the same answers."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.connection import SaslAuthenticateRequest, SaslHandshakeRequest
from groupsdk.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from groupsdk.wire.messages.security import AclCreation, CreateAclsRequest
from groupsdk.wire.messages.topics import CreatableTopic, CreateTopicsRequest
from tests.broker.clients import Client


TOPICS = ("seen", "hidden")
GROUPS = ("g", "denied")
USERS = {"admin": "admin-secret", "app": "app-secret"}
_TOPIC, _GROUP, _LITERAL, _DESCRIBE, _ALLOW = 2, 3, 3, 8, 3
_NOT_YET = {3, 14, 15, 16}
_ATTEMPTS = 100_000
pytestmark = pytest.mark.timeout(300)


def log_in(address: str, user: str) -> Client:
    """Connects as a user."""
    host, _, port = address.rpartition(":")
    client = Client((host, int(port)))
    assert client.ask(SaslHandshakeRequest("PLAIN"), 1).error_code == 0
    message = f"\0{user}\0{USERS[user]}".encode()
    assert client.ask(SaslAuthenticateRequest(message), 2).error_code == 0
    return client


def prepare(admin: Client, app: Client) -> None:
    """Commits for both topics in both groups, and lets the app describe one of each."""
    asked = tuple(CreatableTopic(name, 2, 1) for name in TOPICS)
    admin.ask(CreateTopicsRequest(asked))
    for group_id in GROUPS:
        places = (OffsetCommitRequestPartition(0, 7, -1, "m"), OffsetCommitRequestPartition(1, 8))
        topics = tuple(OffsetCommitRequestTopic(name, partitions=places) for name in TOPICS)
        request = OffsetCommitRequest(group_id, topics=topics)
        until(partial(admin.ask, request, 9), _is_taken)
    rights = ((_TOPIC, "seen"), (_GROUP, "g"))
    creations = tuple(
        AclCreation(kind, name, _LITERAL, "User:app", "*", _DESCRIBE, _ALLOW)
        for kind, name in rights
    )
    made = admin.ask(CreateAclsRequest(creations), 3)
    assert [each.error_code for each in made.results] == [0, 0]
    by_name = (OffsetFetchRequestTopics("seen", partition_indexes=(0,)),)
    asking = (OffsetFetchRequestGroup("g", topics=by_name),)
    # the broker hears of its rules with a delay
    until(partial(app.ask, OffsetFetchRequest(groups=asking), 9), _is_allowed)


def _is_taken(answer: Any) -> bool:
    codes = {each.error_code for topic in answer.topics for each in topic.partitions}
    return not codes & _NOT_YET


def _is_allowed(answer: Any) -> bool:
    (group,) = answer.groups
    return not group.error_code and not group.topics[0].partitions[0].error_code


def until(ask: Callable[[], Any], done: Callable[[Any], bool]) -> None:
    """Asks until the answer is as expected."""
    for _ in range(_ATTEMPTS):
        if done(ask()):
            return
    raise AssertionError(f"never as expected: {ask()}")


@pytest.fixture(scope="module")
def apps(kafka_installed: None) -> Iterator[tuple[Client, Client]]:
    """The restricted user, connected to a Kafka and to an embedded broker."""
    with ExitStack() as stack:
        kafka = stack.enter_context(
            LocalKafka(
                listeners=("SASL_PLAINTEXT",),
                users=USERS,
                authorizer=True,
                properties={"offsets.topic.num.partitions": "1"},
            )
        )
        settings = {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "authorizer.class.name": "standard",
            "super.users": "User:admin",
        }
        broker = stack.enter_context(EmbeddedBroker(settings, users=USERS))
        made = []
        for address in (kafka.bootstrap_servers, broker.bootstrap_servers):
            admin = stack.enter_context(log_in(address, "admin"))
            app = stack.enter_context(log_in(address, "app"))
            prepare(admin, app)
            made.append(app)
        yield made[0], made[1]


@pytest.mark.parametrize("version", range(2, 11))
def test_topics_that_may_not_be_described_are_not_listed(
    apps: tuple[Client, Client], version: int
) -> None:
    """Asked for by name they are refused; where all topics are asked for, they are left out."""
    theirs, ours = [[_told(each, version, every=every) for every in (True, False)] for each in apps]
    assert ours == theirs
    (listed,) = [each for each in ours[0] if isinstance(each, list)] or [ours[0][0][2]]
    assert [each[1:4] for each in listed] == [(0, 0, 7), (1, 0, 8)], "of the other topic nothing"


def _told(client: Client, version: int, *, every: bool) -> list[Any]:
    """What a fetch of all topics is answered, or of both by their names; in no order."""
    if version < 8:
        named = tuple(OffsetFetchRequestTopic(each, (0, 1)) for each in TOPICS)
        old = client.ask(OffsetFetchRequest("g", None if every else named), version)
        return [old.error_code, _plain(old.topics)]
    if version >= 10 and not every:
        return []  # by ids, which differ from broker to broker
    by_group = tuple(OffsetFetchRequestTopics(each, partition_indexes=(0, 1)) for each in TOPICS)
    groups = tuple(
        OffsetFetchRequestGroup(each, topics=None if every else by_group) for each in GROUPS
    )
    answer = client.ask(OffsetFetchRequest(groups=groups), version)
    return [(each.group_id, each.error_code, _plain(each.topics)) for each in answer.groups]


def _plain(topics: Any) -> list[Any]:
    return sorted(
        (topic.name, each.partition_index, each.error_code, each.committed_offset, each.metadata)
        for topic in topics
        for each in topic.partitions
    )
