"""Authorize operations by ACLs (Kafka: StandardAuthorizer)."""

import ipaddress
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from groupsdk.broker.catalogue import Catalogue
from groupsdk.broker.settings.table import BrokerConfig


RESOURCES: Final = {
    "topic": 2,
    "group": 3,
    "cluster": 4,
    "transactional_id": 5,
    "delegation_token": 6,
    "user": 7,
}
"""Resource types by name, with their number in requests."""

OPERATIONS: Final = {
    "all": 2,
    "read": 3,
    "write": 4,
    "create": 5,
    "delete": 6,
    "alter": 7,
    "describe": 8,
    "cluster_action": 9,
    "describe_configs": 10,
    "alter_configs": 11,
    "idempotent_write": 12,
    "create_tokens": 13,
    "describe_tokens": 14,
    "two_phase_commit": 15,
}
"""Operations by name, with their number in requests."""

OPERATIONS_OF: Final = {
    "topic": (
        "read",
        "write",
        "create",
        "delete",
        "alter",
        "describe",
        "describe_configs",
        "alter_configs",
    ),
    "group": ("read", "delete", "describe", "describe_configs", "alter_configs"),
    "cluster": (
        "create",
        "alter",
        "describe",
        "cluster_action",
        "describe_configs",
        "alter_configs",
        "idempotent_write",
    ),
    "transactional_id": ("write", "describe", "two_phase_commit"),
    "delegation_token": ("describe",),
    "user": ("create_tokens", "describe_tokens"),
}
"""The operations that apply to a resource of each type."""

ALL: Final = 2
DENY: Final = 2
ALLOW: Final = 3
LITERAL: Final = 3
PREFIXED: Final = 4
ANY: Final = 1
MATCH: Final = 2
_WILDCARD: Final = "*"
_ANYONE: Final = "User:*"
_KIND: Final = "acl"
_IMPLIED_BY: Final = {
    OPERATIONS["describe"]: frozenset(
        OPERATIONS[each] for each in ("read", "write", "delete", "alter")
    ),
    OPERATIONS["describe_configs"]: frozenset({OPERATIONS["alter_configs"]}),
}


def operation_bit(operation: str) -> int:
    """Return the bit of an operation in a set of authorized operations (KIP-430)."""
    return 1 << OPERATIONS[operation]


class Acl(NamedTuple):
    """One access control entry (ACL), in the numbers of Kafka's protocol."""

    resource_type: int
    """A value of `RESOURCES`."""
    resource_name: str
    """The name, a prefix of it, or "*" for every resource of the type."""
    pattern_type: int
    """LITERAL or PREFIXED."""
    principal: str
    """The user, such as "User:alice"; "User:*" for everyone."""
    host: str
    """The client's IP address; "*" for every host."""
    operation: int
    """A value of `OPERATIONS`."""
    permission: int
    """ALLOW or DENY."""

    def covers(self, resource_type: int, name: str) -> bool:
        """Return whether the ACL applies to the resource of this type (its number) and name."""
        if self.resource_type != resource_type:
            return False
        if self.pattern_type == PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in {name, _WILDCARD}

    def names(self, principal: str, host: str) -> bool:
        """Return whether the ACL applies to this principal from this host."""
        return self.principal in {principal, _ANYONE} and self.host in {host, _WILDCARD}

    def forbids(self, operation: int) -> bool:
        """Return whether the ACL denies an operation, given by its number."""
        return self.permission == DENY and self.operation in {operation, ALL}

    def grants(self, operation: int) -> bool:
        """Return whether the ACL allows an operation, given by its number, directly or by implication."""
        if self.permission != ALLOW:
            return False
        implied = _IMPLIED_BY.get(operation, frozenset())
        return self.operation in {operation, ALL} or self.operation in implied


class AclFilter(NamedTuple):
    """A filter of ACLs, with the fields of `Acl`; None and 1 (ANY) match everything."""

    resource_type: int
    resource_name: str | None
    """The exact name; with the pattern type MATCH, a name that the ACL applies to."""
    pattern_type: int
    """LITERAL, PREFIXED, ANY or MATCH."""
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def takes(self, acl: Acl) -> bool:
        """Return whether an ACL matches the filter."""
        return (
            self.resource_type in {ANY, acl.resource_type}
            and self._takes_name(acl)
            and self.principal in {None, acl.principal}
            and self.host in {None, acl.host}
            and self.operation in {ANY, acl.operation}
            and self.permission in {ANY, acl.permission}
        )

    def _takes_name(self, acl: Acl) -> bool:
        if self.pattern_type == MATCH:
            return self.resource_name is None or acl.covers(acl.resource_type, self.resource_name)
        return self.pattern_type in {ANY, acl.pattern_type} and self.resource_name in {
            None,
            acl.resource_name,
        }


class _Acls:
    """All ACLs, in order and by resource and principal: the cost of a decision does not grow with their number."""

    __slots__ = ("_by_resource", "_prefix_lengths", "ordered")

    def __init__(self, acls: Iterable[Acl]) -> None:
        self.ordered: list[Acl] = []
        self._by_resource: dict[tuple[int, int, str], dict[str, set[Acl]]] = {}
        self._prefix_lengths: dict[int, Counter[int]] = {}
        for acl in sorted(set(acls)):
            self.add(acl)

    def __contains__(self, acl: Acl) -> bool:
        by_principal = self._by_resource.get(_resource(acl), {})
        return acl in by_principal.get(acl.principal, ())

    def add(self, acl: Acl) -> None:
        insort(self.ordered, acl)
        resource = _resource(acl)
        if resource not in self._by_resource and acl.pattern_type == PREFIXED:
            lengths = self._prefix_lengths.setdefault(acl.resource_type, Counter())
            lengths[len(acl.resource_name)] += 1
        by_principal = self._by_resource.setdefault(resource, {})
        by_principal.setdefault(acl.principal, set()).add(acl)

    def remove(self, acl: Acl) -> None:
        del self.ordered[bisect_left(self.ordered, acl)]
        resource = _resource(acl)
        by_principal = self._by_resource[resource]
        by_principal[acl.principal].remove(acl)
        if by_principal[acl.principal]:
            return
        del by_principal[acl.principal]
        if by_principal:
            return
        del self._by_resource[resource]
        if acl.pattern_type == PREFIXED:
            lengths = self._prefix_lengths[acl.resource_type]
            lengths[len(acl.resource_name)] -= 1
            if not lengths[len(acl.resource_name)]:
                del lengths[len(acl.resource_name)]

    def of(self, kind: int, pattern: int, name: str) -> Iterator[Mapping[str, set[Acl]]]:
        """Yield the ACLs with this resource name, by principal."""
        found = self._by_resource.get((kind, pattern, name))
        if found is not None:
            yield found

    def covering(self, kind: int, name: str) -> Iterator[Mapping[str, set[Acl]]]:
        """Yield the ACLs that apply to a resource, by principal."""
        for literal in {name, _WILDCARD}:
            yield from self.of(kind, LITERAL, literal)
        for length in self._prefix_lengths.get(kind, ()):
            if length <= len(name):
                yield from self.of(kind, PREFIXED, name[:length])

    def candidates(self, wanted: AclFilter) -> Iterable[Acl]:
        """Return a copy of the ACLs among which all that match a filter are; few, if it names a resource."""
        name = wanted.resource_name
        if name is None:
            return tuple(self.ordered)
        is_any = wanted.resource_type == ANY
        found: list[Mapping[str, set[Acl]]] = []
        for kind in RESOURCES.values() if is_any else (wanted.resource_type,):
            if wanted.pattern_type == MATCH:
                found += self.covering(kind, name)
            else:
                found += (*self.of(kind, LITERAL, name), *self.of(kind, PREFIXED, name))
        return sorted(acl for each in found for acls in each.values() for acl in acls)


def _resource(acl: Acl) -> tuple[int, int, str]:
    return acl.resource_type, acl.pattern_type, acl.resource_name


class Authorizer:
    """Stores ACLs in the catalogue and authorizes by them: a denying ACL has precedence over an allowing one."""

    def __init__(self, catalogue: Catalogue, config: BrokerConfig) -> None:
        self._store = catalogue.store
        self._super_users = frozenset(
            each.strip() for each in config.super_users.split(";") if each.strip()
        )
        self._allow_without_rules = config.allow_everyone_if_no_acl_found
        self._acls = _Acls(Acl(*value) for _, _, value in catalogue.store.facts(_KIND))
        self._decided: dict[tuple[str, str, str, str, str], bool] = {}

    def allows(self, principal: str, host: str, operation: str, resource: str, name: str) -> bool:
        """Return whether a client is authorized for an operation; decisions are cached until an ACL changes."""
        asked = (principal, host, operation, resource, name)
        found = self._decided.get(asked)
        if found is None:
            if len(self._decided) > 10_000:
                self._decided.clear()
            found = self._decided[asked] = self._decide(*asked)
        return found

    def _decide(self, principal: str, host: str, operation: str, resource: str, name: str) -> bool:
        if principal in self._super_users:
            return True
        kind, wanted = RESOURCES[resource], OPERATIONS[operation]
        about = list(self._acls.covering(kind, name))
        if not about:
            return self._allow_without_rules
        mine = list(_naming(about, principal, host))
        if any(acl.forbids(wanted) for acl in mine):
            return False
        return any(acl.grants(wanted) for acl in mine)

    def allows_any(self, principal: str, host: str, operation: str, resource: str) -> bool:
        """Return whether a client is authorized for an operation on at least one resource of a type."""
        if principal in self._super_users:
            return True
        kind, wanted = RESOURCES[resource], OPERATIONS[operation]
        mine = [
            acl
            for acl in self._acls.ordered
            if acl.resource_type == kind and acl.names(principal, host)
        ]
        denied = [acl for acl in mine if acl.forbids(wanted)]
        if any(acl.resource_name == _WILDCARD and acl.pattern_type == LITERAL for acl in denied):
            return False
        granted = [acl for acl in mine if acl.grants(wanted)]
        if not granted:
            return self._allow_without_rules
        covering = self._acls.covering
        return any(
            not any(
                no.forbids(wanted)
                for no in _naming(covering(kind, acl.resource_name), principal, host)
            )
            for acl in granted
        )

    def add(self, acls: Iterable[Acl]) -> None:
        """Add ACLs, which must be valid by `acl_problem`; existing ones are ignored."""
        new = {acl for acl in acls if acl not in self._acls}
        self._store.write((_KIND, _key(acl), list(acl)) for acl in new)
        for acl in new:
            self._acls.add(acl)
        self._decided.clear()

    def remove(self, acls: Iterable[Acl]) -> None:
        """Remove ACLs; missing ones are ignored."""
        gone = {acl for acl in acls if acl in self._acls}
        self._store.write((_KIND, _key(acl), None) for acl in gone)
        for acl in gone:
            self._acls.remove(acl)
        self._decided.clear()

    def matching(self, wanted: AclFilter) -> Iterator[Acl | None]:
        """Yield the ACLs that match a filter, sorted, and None for each other one that was compared with it.

        ACLs may be added and removed meanwhile, without effect on the result.
        """
        return (acl if wanted.takes(acl) else None for acl in self._acls.candidates(wanted))


def _naming(about: Iterable[Mapping[str, set[Acl]]], principal: str, host: str) -> Iterator[Acl]:
    """Yield the ACLs that apply to a principal from a host."""
    for by_principal in about:
        for each in {principal, _ANYONE}:
            for acl in by_principal.get(each, ()):
                if acl.names(principal, host):
                    yield acl


def acl_problem(acl: Acl) -> str | None:
    """Return why an ACL is invalid; None if it is valid."""
    if acl.resource_type not in RESOURCES.values():
        return f"ACLs are not supported for the resource type {acl.resource_type}"
    if acl.pattern_type not in {LITERAL, PREFIXED}:
        return f"the pattern type of an ACL must be LITERAL or PREFIXED, not {acl.pattern_type}"
    if acl.permission not in {DENY, ALLOW}:
        return f"the permission type of an ACL must be DENY or ALLOW, not {acl.permission}"
    if acl.operation not in OPERATIONS.values():
        return f"the operation {acl.operation} is not allowed in an ACL"
    if not acl.resource_name:
        return "the resource name of an ACL must not be empty"
    kind, colon, name = acl.principal.partition(":")
    if not (kind and colon and name):
        return f"the principal of an ACL must have the form User:name, not {acl.principal!r}"
    return _host_problem(acl.host)


def _host_problem(host: str) -> str | None:
    if host == _WILDCARD:
        return None
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return f"the host of an ACL must be an IP address or *, not {host!r}"
    return None


def _key(acl: Acl) -> str:
    # lengths keep apart what may hold any character
    parts: list[Any] = list(acl)
    return "|".join(f"{len(str(part))}:{part}" for part in parts)
