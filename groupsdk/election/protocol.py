"""The candidates of an election and the rule that decides it, as plain bytes, without I/O."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self


_MAX_BYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """The metadata of one process, sent to the leader of the group.

    `leads`: it leads at present. `yields`: it has resigned, and lets all others go first.
    """

    name: str
    eligible: bool
    leads: bool
    yields: bool = False

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a candidate; one that cannot be decoded is not eligible."""
        fields = _fields(data)
        name = fields.get("name")
        return cls(
            name if isinstance(name, str) else "",
            fields.get("eligible") is True,
            fields.get("leads") is True,
            fields.get("yields") is True,
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision of an election, identical for all members: member id and name of the leader, and the names that follow.

    Without a member that may lead the id is "" and the name None.
    """

    leader_id: str = ""
    leader_name: str | None = None
    standby: tuple[str, ...] = ()

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode a verdict; bytes that cannot be decoded give an empty one."""
        fields = _fields(data)
        leader_id, name = fields.get("leader_id"), fields.get("leader_name")
        if not isinstance(leader_id, str) or not isinstance(name, str) or not leader_id:
            return cls()
        standby = fields.get("standby")
        names = standby if isinstance(standby, list) else []
        return cls(leader_id, name, tuple(each for each in names if isinstance(each, str)))


def elect(members: Mapping[str, bytes]) -> Verdict:
    """Decide: the current leader stays, else the first eligible candidate by name and member id leads."""
    candidates = {member: Candidate.decode(data) for member, data in members.items()}
    order = sorted(
        (not each.leads, each.yields, each.name, member)
        for member, each in candidates.items()
        if each.eligible
    )
    if not order:
        return Verdict()
    names = [name or member for _, _, name, member in order]
    return Verdict(order[0][3], names[0], tuple(names[1:]))


def _fields(data: bytes) -> dict[str, Any]:
    if len(data) > _MAX_BYTES:
        return {}
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
