"""Load the assignors named in `group.consumer.assignors`, and adapt client-side assignors to run on the broker."""

import copy
from collections.abc import Iterable, Mapping
from importlib import import_module
from inspect import iscoroutinefunction, signature
from traceback import format_exception_only
from typing import Any, Final

from groupsdk.assignment import (
    Assignment,
    Cluster,
    MemberReport,
    PartitionAssignor,
    RebalanceProtocol,
    Subscription,
    is_assignor,
    reads_reports,
    resolve_assignor,
)
from groupsdk.broker.coordinator.consumer.assignors import (
    BUILT_IN,
    GroupSpec,
    MemberSpec,
    ServerAssignor,
)
from groupsdk.broker.coordinator.consumer.topics import Partitions
from groupsdk.errors import ConfigError


_SETTING: Final = "group.consumer.assignors"
_CONTRACT: Final = "name and method assign(group), as groupsdk.broker.ServerAssignor requires"
_MAX_NAME: Final = 249
_GENERATION: Final = 1
"""The generation passed with every member's target: on a broker, no claim is older than another."""


class MemberAssignorOnBroker:
    """Adapts a client-side assignor, such as `sticky` or `weighted`, to run on the broker as a `ServerAssignor`.

    The previous targets replace the partitions that members claim to own. Each member's user data comes from a copy
    of the assignor that has been passed the member's target.

    Args:
        assignor: the client-side assignor; copied for each run, never changed.

    Raises:
        ConfigError: the assignor requires cooperative rebalancing (KIP-429).
    """

    def __init__(self, assignor: PartitionAssignor) -> None:
        if RebalanceProtocol.EAGER not in assignor.supported_protocols:
            raise ConfigError(
                f"{_SETTING}: {assignor.name!r} only supports the cooperative protocol, which"
                " the broker does not need: use an assignor that supports the eager one, such as sticky"
            )
        self._assignor = assignor

    @property
    def name(self) -> str:
        return self._assignor.name

    @property
    def reads_reports(self) -> bool:
        """Whether the wrapped assignor looks at the lags of partitions, and at the reports of members."""
        return reads_reports(self._assignor)

    def assign(self, group: GroupSpec) -> Mapping[str, Partitions]:
        """Run the assignor on a group. Return the partitions of each member."""
        topics = {topic.name: topic for topic in group.topics.values()}
        cluster = Cluster(
            {name: each.partitions for name, each in topics.items()},
            {name: each.racks for name, each in topics.items() if each.racks},
            {group.topics[each].name: lags for each, lags in group.lags.items() if lags},
        )
        subscriptions = {}
        for member_id, member in group.members.items():
            names = tuple(sorted(group.topics[each].name for each in member.subscribed))
            share = {
                group.topics[each].name: tuple(sorted(indexes))
                for each, indexes in member.target.items()
                if each in group.topics
            }
            subscriptions[member_id] = Subscription(
                names,
                user_data=self._user_data(share, names),
                rack_id=member.rack_id,
                group_instance_id=member.instance_id,
                report=self._report(member, share, cluster) if self.reads_reports else None,
            )
        plan = copy.copy(self._assignor).assign(cluster, subscriptions)
        return {
            member_id: {
                topics[name].topic_id: tuple(indexes)
                for name, indexes in assignment.partitions.items()
                if len(indexes)
            }
            for member_id, assignment in plan.items()
        }

    @staticmethod
    def _report(
        member: MemberSpec, share: Mapping[str, tuple[int, ...]], cluster: Cluster
    ) -> MemberReport:
        """Return what the broker knows of a member; its load is not known."""
        lags = {
            name: {each: known[each] for each in indexes if each in known}
            for name, indexes in share.items()
            if (known := cluster.lags.get(name))
        }
        return MemberReport(member.client_id, lags=lags)

    def _user_data(
        self, share: Mapping[str, tuple[int, ...]], names: tuple[str, ...]
    ) -> bytes | None:
        member = copy.copy(self._assignor)
        if share:
            member.on_assignment(Assignment(share), _GENERATION)
        return member.subscription_user_data(names)


def load_assignors(
    text: str, more: Iterable[ServerAssignor | PartitionAssignor] = ()
) -> dict[str, ServerAssignor]:
    """Load the assignors of a broker. Return them by name, the default one first.

    Args:
        text: `group.consumer.assignors`, separated by commas: `uniform` and `range`, which are Kafka's; names of the
            package `assignors`, such as `sticky` and `weighted`; or `module:Class` for a custom one.
        more: further assignors; they replace assignors of the same name in the text.

    Raises:
        ConfigError: one cannot be loaded or used, two have the same name, or there is none.
    """
    given: dict[str, ServerAssignor] = {}
    for each in more:
        made = _usable(each, f"assignors: {each!r}")
        if made.name in given:
            raise ConfigError(f"assignors: two are named {made.name!r}")
        given[made.name] = made
    found: dict[str, ServerAssignor] = {}
    for entry in filter(None, (each.strip() for each in text.split(","))):
        assignor = given.pop(entry, None) or _loaded(entry)
        if assignor.name in found:
            raise ConfigError(f"{_SETTING} names {assignor.name!r} twice")
        found[assignor.name] = assignor
    found.update(given)
    if not found:
        raise ConfigError(f"{_SETTING} must name at least one assignor")
    return found


def _loaded(entry: str) -> ServerAssignor:
    built_in = BUILT_IN.get(entry)
    if built_in is not None:
        return built_in()
    module, colon, name = entry.partition(":")
    try:
        made = getattr(import_module(module), name)() if colon else resolve_assignor(entry)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # `SystemExit` as well: the module is the user's
        (said,) = format_exception_only(error)[-1:]
        known = f"{', '.join(BUILT_IN)}, sticky, weighted, lag"
        raise ConfigError(
            f"{_SETTING}: cannot load {entry!r} ({said.strip()}); use one of {known}, or module:Class"
        ) from error
    return _usable(made, f"{_SETTING}: {entry!r}")


def _usable(made: Any, where: str) -> ServerAssignor:
    """Return an assignor of the user's that a broker can call, adapted if it is one of the client's."""
    if isinstance(made, type):
        raise ConfigError(f"{where} is a class: pass an object of it, {made.__name__}(...)")
    if isinstance(made, str):
        raise ConfigError(f"{where} is a name: write it into {_SETTING}")
    try:
        name, assign = made.name, made.assign
    except Exception as error:
        raise ConfigError(f"{where} has no {_CONTRACT}: {error}") from error
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= _MAX_NAME:
        raise ConfigError(
            f"{where}: its name must be a string of 1 to {_MAX_NAME} printable characters, not {name!r}"
        )
    if not callable(assign):
        raise ConfigError(f"{where} has no {_CONTRACT}: assign cannot be called")
    if is_assignor(made):
        return MemberAssignorOnBroker(made)
    if iscoroutinefunction(assign):
        raise ConfigError(f"{where}: assign must be a plain function, not async def")
    try:
        signature(assign).bind(None)
    except TypeError as error:
        raise ConfigError(f"{where}: assign must take one argument, the group: {error}") from error
    except ValueError:
        pass  # of C code, which does not say
    checked: ServerAssignor = made
    return checked
