"""A member for tests of what is exported of it."""

from typing_extensions import override

from groupsdk import AbstractCoordinator, AsyncAbstractCoordinator, GroupMembers


class Quiet(AbstractCoordinator):
    protocol_type = "test"

    @override
    def metadata(self) -> dict[str, bytes]:
        return {"any": b""}

    @override
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> dict[str, bytes]:
        return dict.fromkeys(members, b"")

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        pass


class AsyncQuiet(AsyncAbstractCoordinator):
    protocol_type = "test"

    @override
    async def metadata(self) -> dict[str, bytes]:
        return {"any": b""}

    @override
    async def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> dict[str, bytes]:
        return dict.fromkeys(members, b"")

    @override
    async def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        pass
