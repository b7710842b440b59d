"""Tests quotas, which are kept and described, with a real Kafka beside it."""

import math
from collections.abc import Mapping

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from groupsdk.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryRequest,
    OpData,
)
from groupsdk.wire.messages.describe_client_quotas import (
    ANY,
    DEFAULT,
    EXACT,
    ComponentData,
    DescribeClientQuotasRequest,
)
from tests.broker.clients import Client, connect, eventually


FILTERS = [
    ((), 0),
    ((ComponentData("user", EXACT, "nobody"),), 0),
    ((ComponentData("user", ANY, None), ComponentData("client-id", DEFAULT, None)), 0),
    ((ComponentData("ip", ANY, None),), 0),
    ((ComponentData("", ANY, None),), 42),
    ((ComponentData("user", ANY, None), ComponentData("user", ANY, None)), 42),
    ((ComponentData("planet", ANY, None),), 35),
    ((ComponentData("user", EXACT, None),), 42),
    ((ComponentData("user", DEFAULT, "bob"),), 42),
    ((ComponentData("user", ANY, "bob"),), 42),
    ((ComponentData("user", 3, None),), 42),
    ((ComponentData("user", ANY, None), ComponentData("ip", ANY, None)), 42),
]
PRODUCE, CONSUME, CONNECT = "producer_byte_rate", "consumer_byte_rate", "connection_creation_rate"
BOB = {"user": "bob"}
Names = Mapping[str, str | None]
Found = dict[tuple[tuple[str, str | None], ...], dict[str, float]]


def alter(
    client: Client, entity: Names, *ops: OpData, validate_only: bool = False, version: int = 1
) -> int:
    """Changes quotas of one entity; returns the error."""
    names = tuple(EntityData(kind, name) for kind, name in entity.items())
    request = AlterClientQuotasRequest((EntryRequest(names, ops),), validate_only)
    (answer,) = client.ask(request, version).entries
    assert (answer.error_message is None) == (answer.error_code == 0)
    assert {each.entity_type: each.entity_name for each in answer.entity} == entity
    return answer.error_code


def found(client: Client, *components: ComponentData, strict: bool = False) -> Found:
    """Lists the quotas that match a filter."""
    answer = client.ask(DescribeClientQuotasRequest(components, strict), 1)
    assert answer.error_code == 0
    assert answer.entries is not None
    return {
        tuple(sorted((part.entity_type, part.entity_name) for part in each.entity)): {
            value.key: value.value for value in each.values
        }
        for each in answer.entries
    }


def listed(client: Client) -> list[tuple[list[str], list[str]]]:
    """Lists the entity types and the quotas of all entities, in the order of the answer."""
    entries = client.ask(DescribeClientQuotasRequest((), False), 1).entries
    assert entries is not None
    return [
        ([part.entity_type for part in each.entity], [value.key for value in each.values])
        for each in entries
    ]


def check_filters(client: Client) -> None:
    """Asks while there are no quotas."""
    for components, code in FILTERS:
        for version in (0, 1):
            answer = client.ask(DescribeClientQuotasRequest(components), version)
            assert answer.error_code == code, components
            assert answer.entries == (None if code else ())


def check_quotas(client: Client) -> None:
    """Sets, finds and removes quotas."""
    for version in (0, 1):
        assert alter(client, BOB, OpData(PRODUCE, 1000.0), version=version) == 0
    assert alter(client, BOB, OpData(CONSUME, 5.0), OpData("request_percentage", 0.5)) == 0
    assert alter(client, BOB, OpData("controller_mutation_rate", 0.25)) == 0
    both: Names = {"user": "x", "client-id": None}
    several = (OpData(PRODUCE, 5.0), OpData(CONSUME, 5.0), OpData("request_percentage", 5.0))
    assert alter(client, both, *several) == 0
    assert alter(client, {"ip": "127.0.0.1"}, OpData(CONNECT, 5.0)) == 0
    assert alter(client, {"ip": None}, OpData(CONNECT, 6.0)) == 0
    assert alter(client, BOB, OpData(PRODUCE, 77.0), validate_only=True) == 0
    wrong: list[tuple[Names, tuple[OpData, ...]]] = [
        (BOB, (OpData(PRODUCE, 1000.5),)),
        (BOB, (OpData(PRODUCE, 0.0),)),
        (BOB, (OpData(PRODUCE, -1.0),)),
        (BOB, (OpData("no_such", 1.0),)),
        (BOB, (OpData(CONNECT, 1.0),)),
        (BOB, (OpData(PRODUCE, 1.0), OpData(PRODUCE, 2.0))),
        (BOB, (OpData(PRODUCE, 1.0), OpData("no_such", 1.0))),
        ({"ip": "127.0.0.1"}, (OpData(CONNECT, 5.5),)),
        ({"ip": "127.0.0.1"}, (OpData(PRODUCE, 5.0),)),
        ({"ip": "not an address"}, (OpData(CONNECT, 5.0),)),
        ({"ip": None, "user": "x"}, (OpData(CONNECT, 5.0),)),
        ({"planet": "x"}, (OpData(PRODUCE, 5.0),)),
        ({"user": ""}, (OpData(PRODUCE, 5.0),)),
        ({}, (OpData(PRODUCE, 5.0),)),
    ]
    for entity, ops in wrong:
        assert alter(client, entity, *ops) == 42, (entity, ops)
    bob = (("user", "bob"),)
    x = (("client-id", None), ("user", "x"))
    local, other = (("ip", "127.0.0.1"),), (("ip", None),)
    everything: Found = {
        bob: {
            PRODUCE: 1000.0,
            CONSUME: 5.0,
            "request_percentage": 0.5,
            "controller_mutation_rate": 0.25,
        },
        x: {PRODUCE: 5.0, CONSUME: 5.0, "request_percentage": 5.0},
        local: {CONNECT: 5.0},
        other: {CONNECT: 6.0},
    }
    eventually(lambda: found(client), everything)
    assert listed(client) == [
        (["user"], [PRODUCE, CONSUME, "controller_mutation_rate", "request_percentage"]),
        (["ip"], [CONNECT]),
        (["ip"], [CONNECT]),
        (["client-id", "user"], [CONSUME, "request_percentage", PRODUCE]),
    ]
    for components, strict, expected in (
        ((ComponentData("user", EXACT, "bob"),), False, {bob}),
        ((ComponentData("user", ANY, None),), False, {bob, x}),
        ((ComponentData("user", ANY, None),), True, {bob}),
        ((ComponentData("user", EXACT, "x"),), True, set()),
        ((ComponentData("ip", DEFAULT, None),), False, {other}),
        ((ComponentData("client-id", DEFAULT, None),), False, {x}),
        ((), True, set()),
    ):
        assert found(client, *components, strict=strict).keys() == expected, components
    assert alter(client, {"user": "nobody"}, OpData(PRODUCE, 0.0, True)) == 0
    for key in everything[bob]:
        assert alter(client, BOB, OpData(key, 0.0, True)) == 0
    assert alter(client, both, *(OpData(key, 0.0, True) for key in everything[x])) == 0
    eventually(lambda: found(client).keys(), {local, other})
    for address in ("127.0.0.1", None):
        assert alter(client, {"ip": address}, OpData(CONNECT, 0.0, True)) == 0
    eventually(lambda: found(client), {})


def check_an_entity_twice(client: Client) -> None:
    """Names one entity twice in a request: the first is taken, and the answer says no."""
    entries = tuple(
        EntryRequest((EntityData("user", "z"),), (OpData(PRODUCE, value),)) for value in (1.0, 2.0)
    )
    answer = client.ask(AlterClientQuotasRequest(entries), 1)
    assert [each.error_code for each in answer.entries] == [42]
    eventually(lambda: found(client), {(("user", "z"),): {PRODUCE: 1.0}})
    assert alter(client, {"user": "z"}, OpData(PRODUCE, 0.0, True)) == 0
    eventually(lambda: found(client), {})


def check_orders(client: Client) -> None:
    """Asks for several entities at once: they and their names come in the order of Java's hash tables."""
    entities = ((("user", "a"),), (("user", "b"),), (("user", "u"), ("client-id", "ab")))
    entries = tuple(
        EntryRequest(
            tuple(EntityData(kind, name) for kind, name in entity), (OpData(PRODUCE, 1.0),)
        )
        for entity in entities
    )
    answer = client.ask(AlterClientQuotasRequest(entries, True), 1)
    found = [
        [(part.entity_type, part.entity_name) for part in each.entity] for each in answer.entries
    ]
    assert found == [[("client-id", "ab"), ("user", "u")], [("user", "b")], [("user", "a")]]


def test_quotas_are_kept(client: Client) -> None:
    check_filters(client)
    check_quotas(client)
    check_an_entity_twice(client)
    check_orders(client)
    for value in (math.nan, math.inf):
        assert alter(client, BOB, OpData(PRODUCE, value)) == 42


def test_kafka_answers_the_same(kafka: LocalKafka) -> None:
    host, _, port = kafka.bootstrap_servers.rpartition(":")
    with Client((host, int(port))) as client:
        check_filters(client)
        check_quotas(client)
        check_an_entity_twice(client)
        check_orders(client)


def test_quotas_outlive_a_restart() -> None:
    with EmbeddedBroker() as broker:
        with connect(broker) as client:
            alter(client, {"user": 'quote " and : colon'}, OpData(PRODUCE, 3.0))
        broker.restart()
        with connect(broker) as client:
            assert found(client) == {(("user", 'quote " and : colon'),): {PRODUCE: 3.0}}
