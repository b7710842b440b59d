"""Keep what the coordinators to subclass have in common: how they are made, and what can be read."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Never, TypeVar, Unpack, cast

from typing_extensions import override

from groupsdk.clock import Clock
from groupsdk.config import MemberConfig
from groupsdk.drivers.member_base import MemberBase
from groupsdk.membership.recorder import RebalanceEvent
from groupsdk.snapshot import MemberSnapshot
from groupsdk.types import Generation


if TYPE_CHECKING:
    from groupsdk.settings import MemberSettings

MemberT = TypeVar("MemberT", bound=MemberBase)


class _NotMade:
    """Stands where the member will be, for a subclass whose `__init__` does not call ours."""

    def __get__(self, coordinator: object, owner: type) -> Never:
        raise AttributeError(
            f"{owner.__name__}.__init__ must call super().__init__(settings), which creates the member"
        )


class CoordinatorBase(ABC, Generic[MemberT]):
    """A coordinator and its member. What is here may be called from any thread at any time.

    Args:
        settings: Kafka's keys, e.g. ``{"bootstrap.servers": "...", "group.id": "..."}``, or a `MemberConfig`.
        clock: the time; for tests.
        keywords: the same as keywords, e.g. ``group_id="..."``.

    Raises:
        ConfigError: a setting is unknown, missing or wrong.
        TypeError: the subclass says no `protocol_type`.
    """

    # hidden by the attribute of the same name that __init__ sets
    _member: MemberT = cast("Any", _NotMade())

    def __init__(
        self,
        settings: Mapping[str, Any] | MemberConfig | None = None,
        /,
        *,
        clock: Clock | None = None,
        **keywords: "Unpack[MemberSettings]",
    ) -> None:
        if not hasattr(self, "protocol_type"):
            raise TypeError(
                f"{type(self).__name__} has no protocol_type, the kind of group: put"
                " protocol_type = 'work', for example, into the class"
            )
        self._member = self._make_member(MemberConfig.given(settings, keywords), clock)

    @override
    def __repr__(self) -> str:
        if "_member" not in self.__dict__:
            return f"<{type(self).__name__}, not initialized>"
        seen = self._member.snapshot()
        return (
            f"<{type(self).__name__} group={seen.group_id!r} member={seen.member_id!r}"
            f" generation={seen.generation.generation_id} {seen.state.value}>"
        )

    @abstractmethod
    def _make_member(self, config: MemberConfig, clock: Clock | None) -> MemberT:
        """Return the member that calls this coordinator back."""

    def request_rejoin(self, reason: str) -> None:
        """Ask for a rebalance at the next poll; the reason is shown in the broker's log (KIP-800)."""
        self._member.request_rejoin(reason)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Use these for the connections that are made from now on; see `GroupMember.set_sasl_credentials`."""
        self._member.set_sasl_credentials(username, password)

    def wakeup(self) -> None:
        """Make a waiting `poll` or `ensure_active_group` return soon, once; signal handlers may call it."""
        self._member.wakeup()

    def generation(self) -> Generation:
        """Return the current generation, stable or not."""
        return self._member.generation()

    def generation_if_stable(self) -> Generation | None:
        """Return the current generation if it is stable and the session is certainly alive, else None."""
        return self._member.generation_if_stable()

    def member_id(self) -> str:
        """Return the current member id; "" where there is none."""
        return self._member.member_id()

    def snapshot(self) -> MemberSnapshot:
        """Return generation, member id, state and assignment epoch, read at once."""
        return self._member.snapshot()

    def events(self) -> tuple[RebalanceEvent, ...]:
        """Return the last 100 rebalances, oldest first: why, how long each phase took, how it ended."""
        return self._member.events()
