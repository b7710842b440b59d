"""Check what the user's code of one member is told, as it comes."""

from dataclasses import dataclass, field

from groupsdk.types import Generation


@dataclass
class Callbacks:
    """What the user's code was told, checked against invariant 9 as it comes."""

    prepared: bool = False
    lost: bool = False
    """Whether the member was expelled since `on_join_prepare` was called."""
    taken: tuple[Generation, bytes] | None = None
    last_delivered: int = -1
    raised: tuple[Generation, bytes] | None = None
    log: list[str] = field(default_factory=list)

    def on_prepare(self, generation: Generation) -> None:
        lost = generation.generation_id == -1
        if self.prepared and not lost:
            raise AssertionError(
                f"invariant 9: on_join_prepare twice for one rebalance: {self.log}"
            )
        self.prepared, self.lost, self.taken, self.raised = True, False, None, None
        self.log.append(f"prepare {generation.generation_id}")

    def on_complete(self, generation: Generation, assignment: bytes, *, raises: bool) -> None:
        delivered = (generation, assignment)
        self.log.append(f"complete {generation.generation_id}{' raises' if raises else ''}")
        if self.raised is not None and self.raised[0] == generation and self.raised != delivered:
            raise AssertionError(f"invariant 9: redelivered with other bytes: {self.log}")
        if self.lost or not self.prepared:
            raise AssertionError(f"invariant 9: on_join_complete without prepare: {self.log}")
        if generation.generation_id < self.last_delivered:
            raise AssertionError(f"invariant 9: an older generation was delivered: {self.log}")
        self.last_delivered = generation.generation_id
        if raises:
            self.raised = delivered
        else:
            self.prepared, self.taken, self.raised = False, delivered, None
