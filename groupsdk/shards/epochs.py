"""Where the incarnations of groups are recorded, so that the epochs of shards rise through everything."""

from typing import Protocol

from groupsdk.errors import GroupSdkError


class EpochStoreError(GroupSdkError):
    """The number of a new incarnation could not be recorded. Nothing was assigned; a later poll tries again."""

    retriable = True


class EpochStore(Protocol):
    """Records the incarnations of groups: numbers that rise though a group was forgotten and a clock went back.

    Only the leader calls it, and only when an incarnation begins: in the first generation of a group, and in one that no
    member can tie to the generation before. With threads it is called on the thread that polls, with asyncio on a thread
    of its own.
    """

    def advance(self, group_id: str, at_least: int) -> int:
        """Return a number greater than all that were returned before for the group, once it is recorded durably.

        Args:
            group_id: the group.
            at_least: the least number to return.

        Raises:
            EpochStoreError: it cannot be recorded at present.
        """
        ...


class ClockEpochStore:
    """An `EpochStore` that records nothing: `at_least` contains the leader's clock, which then has to be right."""

    def advance(self, group_id: str, at_least: int) -> int:
        return at_least
