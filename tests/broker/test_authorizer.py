"""Tests the decisions by access rules, alone and with a broker that has them."""

from random import Random
from typing import Any

import pytest
from pytest_mock import MockerFixture

from groupsdk.broker.authorizer import (
    ALLOW,
    DENY,
    LITERAL,
    OPERATIONS,
    OPERATIONS_OF,
    PREFIXED,
    RESOURCES,
    Acl,
    AclFilter,
    Authorizer,
    acl_problem,
    operation_bit,
)
from groupsdk.broker.catalogue import Catalogue
from groupsdk.broker.settings.table import BrokerConfig
from groupsdk.broker.store import MemoryStore


EVERYTHING = AclFilter(1, None, 1, None, None, 1, 1)


def authorizer(*acls: Acl, store: MemoryStore | None = None, **settings: Any) -> Authorizer:
    """Makes an authorizer with these rules."""
    made = Authorizer(Catalogue(store or MemoryStore()), BrokerConfig.of(settings))
    made.add(acls)
    return made


def found(rules: Authorizer, wanted: AclFilter) -> list[Acl]:
    """Returns the rules that match a filter."""
    return [each for each in rules.matching(wanted) if each is not None]


def rule(
    operation: str = "read",
    name: str = "t",
    *,
    permission: int = ALLOW,
    pattern: int = LITERAL,
    principal: str = "User:a",
    host: str = "*",
    resource: str = "topic",
) -> Acl:
    return Acl(
        RESOURCES[resource], name, pattern, principal, host, OPERATIONS[operation], permission
    )


def test_nothing_is_allowed_without_a_rule() -> None:
    rules = authorizer(rule())
    assert rules.allows("User:a", "1.2.3.4", "read", "topic", "t")
    assert not rules.allows("User:b", "1.2.3.4", "read", "topic", "t")
    assert not rules.allows("User:a", "1.2.3.4", "write", "topic", "t")
    assert not rules.allows("User:a", "1.2.3.4", "read", "topic", "tt")
    assert not rules.allows("User:a", "1.2.3.4", "read", "group", "t")


def test_resource_without_rules_is_allowed_to_everyone_if_so_configured() -> None:
    rules = authorizer(rule(), allow_everyone_if_no_acl_found=True)
    assert rules.allows("User:b", "h", "read", "topic", "other")
    assert not rules.allows("User:b", "h", "read", "topic", "t")


def test_a_prohibition_wins() -> None:
    rules = authorizer(rule("all"), rule("read", permission=DENY))
    assert not rules.allows("User:a", "h", "read", "topic", "t")
    assert rules.allows("User:a", "h", "write", "topic", "t")
    # a prohibition takes nothing away that only comes with the operation
    assert rules.allows("User:a", "h", "describe", "topic", "t")


@pytest.mark.parametrize("operation", ["read", "write", "delete", "alter"])
def test_permission_to_use_a_resource_implies_describe(operation: str) -> None:
    rules = authorizer(rule(operation))
    assert rules.allows("User:a", "h", "describe", "topic", "t")
    assert not rules.allows("User:a", "h", "describe_configs", "topic", "t")


def test_prefixes_wildcards_and_hosts() -> None:
    rules = authorizer(
        rule(name="app-", pattern=PREFIXED),
        rule("write", "*"),
        rule("create", principal="User:*", host="10.0.0.1"),
    )
    assert rules.allows("User:a", "h", "read", "topic", "app-1")
    assert not rules.allows("User:a", "h", "read", "topic", "ap")
    assert rules.allows("User:a", "h", "write", "topic", "anything")
    assert rules.allows("User:z", "10.0.0.1", "create", "topic", "t")
    assert not rules.allows("User:z", "10.0.0.2", "create", "topic", "t")


def test_super_users_may_do_everything() -> None:
    rules = authorizer(
        rule("all", "*", permission=DENY, principal="User:*"),
        super_users="User:root; User:CN=x,O=y",
    )
    assert rules.allows("User:root", "h", "delete", "topic", "t")
    assert rules.allows("User:CN=x,O=y", "h", "delete", "topic", "t")
    assert not rules.allows("User:roo", "h", "delete", "topic", "t")


def test_some_resource_of_a_type() -> None:
    assert authorizer(rule("write")).allows_any("User:a", "h", "write", "topic")
    assert not authorizer(rule("read")).allows_any("User:a", "h", "write", "topic")
    denied = authorizer(rule("write"), rule("write", "*", permission=DENY))
    assert not denied.allows_any("User:a", "h", "write", "topic")
    hidden = authorizer(rule("write"), rule("write", permission=DENY))
    assert not hidden.allows_any("User:a", "h", "write", "topic")


def test_rules_last_and_decisions_follow_them() -> None:
    store = MemoryStore()
    first = authorizer(rule(), store=store)
    assert first.allows("User:a", "h", "read", "topic", "t")
    second = authorizer(store=store)
    assert second._acls.ordered == [rule()]
    second.remove(found(second, EVERYTHING))
    assert not second.allows("User:a", "h", "read", "topic", "t")
    assert authorizer(store=store)._acls.ordered == []


def test_the_cost_of_a_decision_does_not_grow_with_the_rules_for_other_resources(
    mocker: MockerFixture,
) -> None:
    many = [rule(name=f"t-{n}", pattern=n % 2 + LITERAL) for n in range(1_000)]
    many += [rule(name="t-1x", principal=f"User:{n}") for n in range(1_000)]
    rules = authorizer(*many, rule(name="t-1x"))
    compared = mocker.spy(Acl, "names")
    assert rules.allows("User:a", "h", "read", "topic", "t-1x")
    assert rules.allows("User:a", "h", "read", "topic", "t-11")
    assert not rules.allows("User:a", "h", "read", "topic", "u")
    assert compared.call_count <= 4


def test_decisions_are_those_of_looking_at_every_rule() -> None:
    random = Random(7)
    names = ["a", "ab", "abc", "b", "*"]
    for _ in range(200):
        rules = [
            rule(
                random.choice(["read", "write", "all"]),
                random.choice(names),
                permission=random.choice([ALLOW, ALLOW, DENY]),
                pattern=random.choice([LITERAL, PREFIXED]),
                principal=random.choice(["User:a", "User:b", "User:*"]),
                host=random.choice(["*", "h", "i"]),
                resource=random.choice(["topic", "group"]),
            )
            for _ in range(random.randrange(8))
        ]
        gone = random.sample(rules, len(rules) // 3)
        made = authorizer(*rules)
        made.remove(gone)
        left = set(rules) - set(gone)
        assert set(made._acls.ordered) == left
        for name in ("a", "ab", "abc", "c", "*"):
            mine = [each for each in left if each.covers(2, name) and each.names("User:a", "h")]
            wanted = OPERATIONS["read"]
            allowed = any(each.grants(wanted) for each in mine) and not any(
                each.forbids(wanted) for each in mine
            )
            assert made.allows("User:a", "h", "read", "topic", name) == allowed, (name, left)


def test_find_acls_filters_by_pattern_and_operation() -> None:
    prefixed, literal = rule(name="app-", pattern=PREFIXED), rule(name="app-1")
    rules = authorizer(prefixed, literal, rule("write", "*"))
    for kind in (1, 2):
        covering = found(rules, AclFilter(kind, "app-1", 2, None, None, 1, 1))
        assert covering == sorted({prefixed, literal, rule("write", "*")})
        assert found(rules, AclFilter(kind, "app-1", LITERAL, None, None, 1, 1)) == [literal]
        assert found(rules, AclFilter(kind, "app-", 1, None, None, 1, 1)) == [prefixed]
    assert found(rules, AclFilter(2, None, PREFIXED, None, None, 1, 1)) == [prefixed]
    assert found(rules, AclFilter(1, None, 1, "User:b", None, 1, 1)) == []
    assert len(found(rules, AclFilter(1, None, 1, None, None, OPERATIONS["read"], ALLOW))) == 2


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (rule()._replace(resource_type=1), "resource type 1"),
        (
            rule()._replace(pattern_type=2),
            "pattern type of an ACL must be LITERAL or PREFIXED, not 2",
        ),
        (rule()._replace(permission=1), "permission type of an ACL must be DENY or ALLOW, not 1"),
        (rule()._replace(operation=1), "operation 1"),
        (rule(name=""), "name of an ACL must not be empty"),
        (rule(principal="a"), "User:name"),
        (rule(host="example.com"), "IP address"),
    ],
)
def test_rules_that_cannot_be(wrong: Acl, problem: str) -> None:
    assert problem in str(acl_problem(wrong))


def test_a_rule_that_can_be() -> None:
    assert acl_problem(rule(host="::1")) is None


def test_every_operation_has_a_bit_of_its_own() -> None:
    bits = {operation_bit(each) for each in OPERATIONS}
    assert len(bits) == len(OPERATIONS)
    assert all(set(OPERATIONS_OF[each]) <= OPERATIONS.keys() for each in RESOURCES)
