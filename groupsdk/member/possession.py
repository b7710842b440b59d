"""The law of possession, for both protocols: until when a member certainly holds what it was handed."""


def has_lapsed(until_ms: int | None, now_ms: int) -> bool:
    """Return whether possession has lapsed; nothing is held that could if `until_ms` is None."""
    return until_ms is not None and now_ms >= until_ms


class Possession:
    """What the group cannot have given to others, as far as a member can prove it.

    A member holds what it was handed last, until it gives that up or `until_ms` passes. Then possession has lapsed:
    others may have it, and nothing counts as held. Only the coordinator can end a lapse, by showing that it knows the
    member in the same generation or epoch: had it gone on without the member, it would refuse it. Accepting a join does
    not show that: the coordinator takes a static member back without a word about the generations that it missed. Nor
    does a heartbeat of the classic protocol: a coordinator that is still loading the group accepts any. So a member
    whose possession has lapsed tells its caller that everything is lost, before it joins, and holds nothing until an
    assignment is delivered. From this follow `holds`, whether the caller hears of lost or of revoked partitions, and
    whether it may commit.
    """

    def __init__(self, session_timeout_ms: int, rebalance_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._proof_ms: int | None = None
        self._settled_ms: int | None = None

    @property
    def until_ms(self) -> int | None:
        """The time until which the coordinator cannot have expelled the member; None: not a member.

        It may do so for silence (the session timeout), or for not rejoining in a rebalance: the earliest
        that one can have begun is when the coordinator was last seen without one.
        """
        if self._proof_ms is None or self._settled_ms is None:
            return None
        return min(
            self._proof_ms + self.session_timeout_ms,
            self._settled_ms + self._rebalance_timeout_ms,
        )

    def lapsed(self, now_ms: int) -> bool:
        """Return whether what was held may be another's by now, so that it has to be told as lost."""
        return has_lapsed(self.until_ms, now_ms)

    def outlasts_join(self, now_ms: int, before: int, generation: int, *, led: bool) -> bool:
        """Return whether a member that has joined still holds what it has not given up.

        A join that the coordinator holds back may outlast the session. That it was answered with the very next
        generation shows that no generation was formed without the member. A coordinator that assigns counts otherwise.
        """
        return not self.lapsed(now_ms) or (led and generation == before + 1)

    def accepted(self, sent_ms: int, *, rebalancing: bool = False) -> None:
        """Record that the coordinator accepted what the member sent in its generation, and knew what that was.

        The coordinator's clock cannot have started before that was sent; its rebalance timeout may have, while it
        rebalances.
        """
        if self._proof_ms is None or sent_ms > self._proof_ms:
            self._proof_ms = sent_ms
        if self._settled_ms is None or (not rebalancing and sent_ms > self._settled_ms):
            self._settled_ms = sent_ms

    def forget(self) -> None:
        """Hold nothing: the member was expelled, has left, or is about to tell its loss."""
        self._proof_ms = None
        self._settled_ms = None
