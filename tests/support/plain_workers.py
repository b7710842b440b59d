"""Members with the least of their own, for threads and for asyncio; they keep what they were assigned."""

import asyncio
from typing import Any

from typing_extensions import override

from groupsdk import AbstractCoordinator, AsyncAbstractCoordinator, GroupMembers


class PlainWorker(AbstractCoordinator):
    """The least that a user writes; the leader gives each member the same."""

    protocol_type = "work"

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.assigned: list[bytes] = []

    @override
    def metadata(self) -> list[tuple[str, bytes]]:
        return [("v0", b"hello")]

    @override
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> dict[str, bytes]:
        return dict.fromkeys(members, b"work")

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        self.assigned.append(assignment)


class AsyncPlainWorker(AsyncAbstractCoordinator):
    """The same for asyncio, with both kinds of functions; those with `async def` really wait."""

    protocol_type = "work"

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.assigned: list[bytes] = []

    @override
    def metadata(self) -> list[tuple[str, bytes]]:
        return [("v0", b"hello")]

    @override
    async def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> dict[str, bytes]:
        await asyncio.sleep(0)
        return dict.fromkeys(members, b"work")

    @override
    async def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        await asyncio.sleep(0)
        self.assigned.append(assignment)
