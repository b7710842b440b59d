"""Tell which members are in a rack of a partition's replicas."""

from collections.abc import Mapping, Sequence


class Nearness:
    """Members as bitsets, by rack. False where racks do not matter.

    Args:
        racks: by member; empty where racks do not matter.
        replica_racks: topic to the racks of each partition's replicas, where they are known.
        subscribers: topic to members.
    """

    def __init__(
        self,
        racks: Sequence[str | None],
        replica_racks: Mapping[str, Sequence[frozenset[str]]],
        subscribers: Mapping[str, int],
    ) -> None:
        self._replica_racks = replica_racks
        self._subscribers = subscribers
        self._in_rack: dict[str, int] = {}
        self._nowhere = 0
        for member, rack in enumerate(racks):
            if rack is None:
                self._nowhere |= 1 << member
            else:
                self._in_rack[rack] = self._in_rack.get(rack, 0) | 1 << member
        self._known: dict[frozenset[str], int] = {}

    def __bool__(self) -> bool:
        return bool(self._in_rack)

    def members(self, topic: str, partition: int) -> int:
        """Return the subscribers in a rack of the partition's replicas; nobody where these are not known."""
        if not self._in_rack or topic not in self._replica_racks:
            return 0
        racks = self._replica_racks[topic][partition]
        near = self._known.get(racks)
        if near is None:
            near = 0
            for rack in racks:
                near |= self._in_rack.get(rack, 0)
            self._known[racks] = near
        return near & self._subscribers[topic]

    def is_off_rack(self, topic: str, partition: int, member: int) -> bool:
        """Tell whether a member is in another rack, where others are in the right one."""
        near = self.members(topic, partition)
        return near != 0 and not (near | self._nowhere) >> member & 1
