"""Distribute arbitrary items among members, for groups of a custom type; not Kafka's assignors."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeVar


T = TypeVar("T")


def assign_range(items: Sequence[T], member_ids: Iterable[str]) -> dict[str, list[T]]:
    """Assign each member one contiguous run of items.

    The runs differ in length by at most one, the longer ones first. Members are taken in the order of
    their ids, so the same members get the same items however they are listed. Each is in the result.

    Raises:
        ValueError: a member id occurs twice.
    """
    members = _sorted_members(member_ids)
    if not members:
        return {}
    share, longer = divmod(len(items), len(members))
    result: dict[str, list[T]] = {}
    start = 0
    for index, member_id in enumerate(members):
        end = start + share + (index < longer)
        result[member_id] = list(items[start:end])
        start = end
    return result


def assign_round_robin(items: Sequence[T], member_ids: Iterable[str]) -> dict[str, list[T]]:
    """Assign the items round robin; members are taken as by `assign_range`.

    Raises:
        ValueError: a member id occurs twice.
    """
    members = _sorted_members(member_ids)
    return {
        member_id: list(items[index :: len(members)]) for index, member_id in enumerate(members)
    }


def _sorted_members(member_ids: Iterable[str]) -> list[str]:
    if isinstance(member_ids, str):
        raise TypeError(f"member_ids is the string {member_ids!r}; give a list of member ids")
    members = sorted(member_ids)
    for member_id, following in pairwise(members):
        if member_id == following:
            raise ValueError(f"member id {member_id!r} is listed twice")
    return members
