"""Brokers that tests share."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, and not in its __all__
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from tests.support.consumers import PACED_BY_TESTS
from tests.support.proxy import FaultProxy
from tests.support.workers import RecordingMember, eventually


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedBroker]:
    """A broker of ours."""
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture(params=["kafka", "embedded"])
def servers(request: pytest.FixtureRequest) -> str:
    """The address of a broker of each kind."""
    return str(request.getfixturevalue(request.param).bootstrap_servers)


@pytest.fixture(scope="module")
def paced_proxy() -> Iterator[FaultProxy]:
    """The proxy before the listener PROXIED of `paced_kafka`."""
    with FaultProxy() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def paced_kafka(kafka_installed: None, paced_proxy: FaultProxy) -> Iterator[LocalKafka]:
    """A broker whose groups may have short sessions, with a listener behind a proxy; nobody kills it."""
    with LocalKafka(
        listeners={"PLAINTEXT": "PLAINTEXT", "PROXIED": "PLAINTEXT"},
        advertised={"PROXIED": [paced_proxy.address]},
        properties=PACED_BY_TESTS,
    ) as kafka:
        paced_proxy.connect_to(kafka.nodes[0].address("PROXIED"))
        yield kafka


@pytest.fixture(scope="module")
def paced_embedded() -> Iterator[EmbeddedBroker]:
    """A broker of ours with the pace of `paced_kafka`."""
    with EmbeddedBroker(PACED_BY_TESTS) as broker:
        yield broker


@pytest.fixture
def way(paced_kafka: LocalKafka, paced_proxy: FaultProxy) -> Iterator[FaultProxy]:
    """The way to `paced_kafka` that can fail."""
    paced_proxy.reset()
    yield paced_proxy
    paced_proxy.reset()


@pytest.fixture
def new_member(kafka: LocalKafka, group_id: str) -> Iterator[Callable[..., RecordingMember]]:
    """Make members of the test's group on the shared broker; they are closed at the end."""
    made: list[RecordingMember] = []

    def make(**settings: Any) -> RecordingMember:
        defaults = {"bootstrap_servers": kafka.bootstrap_servers, "group_id": group_id}
        made.append(RecordingMember(**(defaults | settings)))
        return made[-1]

    yield make
    for member in made:
        member.hooks.clear()
        member.close(1.0)


@pytest.fixture
def may_read(secure_kafka: LocalKafka) -> Iterator[Callable[[ResourceType, str, bool], None]]:
    """Give mallory the right to read something, or take it away; it is taken away at the end."""
    client = AdminClient({"bootstrap.servers": secure_kafka.bootstrap_servers_of("PLAINTEXT")})
    touched: set[tuple[ResourceType, str]] = set()

    def change(kind: ResourceType, name: str, given: bool) -> None:
        touched.add((kind, name))
        right = (kind, name, ResourcePatternType.LITERAL, "User:mallory", "*")
        anything = AclBindingFilter(*right, AclOperation.ANY, AclPermissionType.ANY)
        if given:
            allow = AclBinding(*right, AclOperation.READ, AclPermissionType.ALLOW)
            futures = list(client.create_acls([allow]).values())
        else:
            futures = list(client.delete_acls([anything]).values())
        for future in futures:
            future.result(60)
        # Kafka's authorizer follows a moment after the answer
        eventually(lambda: bool(client.describe_acls(anything).result(60)) is given)

    yield change
    for kind, name in touched:
        change(kind, name, False)


@pytest.fixture
def rights(
    may_read: Callable[[ResourceType, str, bool], None], group_id: str
) -> Callable[[bool], None]:
    """Give mallory the right to read the test's group, or take it away."""
    return partial(may_read, ResourceType.GROUP, group_id)
