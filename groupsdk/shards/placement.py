"""Place shards on members: numbers in, numbers out, by the engines of `sticky` and `weighted`.

Shards and members are numbered. Shards with the same needs are one *kind*: the engines see it as a topic with so many
partitions, and a member as subscribed to the kinds that it is able to own.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import fsum

from assignors.sticky import StickyAssignor
from assignors.sticky.ownership import Ownership
from assignors.weighted.plan import Planner
from assignors.weighted.workload import LIGHTEST, Workload
from groupsdk.assignment import Cluster, Subscription
from groupsdk.shards.cycles import improve
from groupsdk.shards.work import NOBODY, Work


_TOLERANCE = 0.02
_ROOMY_TOLERANCE = 0.125
_HUNGRY = 0.5
_ANY = 1e9


def place(work: Work) -> list[int]:
    """Return the member that should own each shard; `NOBODY` where no placement of all shards exists."""
    targets = [NOBODY] * len(work.shards)
    members = list(range(len(work.members)))
    left = [shard for shard, kind in enumerate(work.kinds) if work.able[kind]]
    share = _share_evenly if work.weights is None else _share_by_weight
    is_limited = False
    while left and members:
        shares = share(work, left, members)
        full = [member for member in members if len(shares[member]) > work.limits[member]]
        is_limited = is_limited or bool(full)
        for member in full or members:
            for shard in _kept(work, member, shares[member]):
                targets[shard] = member
        if not full:
            break
        members = [member for member in members if member not in set(full)]
        left = [shard for shard in left if targets[shard] == NOBODY]
    if is_limited:
        _fill(work, targets)
        _return_what_moved_in_vain(work, targets)
        if work.weights is None:
            improve(work, targets)
    _prefer_standbys(work, targets)
    return targets


def _kept(work: Work, member: int, share: list[int]) -> list[int]:
    """Return as much of a share as the limit allows: first what the member owns, then what nobody does."""
    if len(share) <= work.limits[member]:
        return share
    owners = work.owners
    share.sort(key=lambda shard: (owners[shard] != member, owners[shard] != NOBODY, shard))
    return share[: work.limits[member]]


class _Topics:
    """Some shards as topics for some members, each topic a kind."""

    def __init__(self, work: Work, left: Sequence[int], members: Sequence[int]) -> None:
        self._work = work
        self.members = members
        self.place = {member: place for place, member in enumerate(members)}
        self.shards: dict[str, list[int]] = {}
        self.able: dict[str, Sequence[int]] = {}
        by_kind: dict[int, list[int]] = {}
        for shard in left:
            by_kind.setdefault(work.kinds[shard], []).append(shard)
        narrowed: dict[tuple[int, ...], tuple[int, ...]] = {}
        for kind, shards in by_kind.items():
            able = tuple(self.place[m] for m in work.able[kind] if m in self.place)
            if able:
                self.shards[f"{kind:06d}"] = shards
                self.able[f"{kind:06d}"] = narrowed.setdefault(able, able)

    @property
    def counts(self) -> dict[str, int]:
        """How many shards each topic has."""
        return {topic: len(shards) for topic, shards in self.shards.items()}

    def racks(self) -> dict[str, list[frozenset[str]]]:
        """Return by topic the zones that each shard may be in; empty where zones do not matter.

        One without a zone, or with one in which nobody is able to own it, may be in any.
        """
        if not self._work.have_zones:
            return {}
        shards, states = self._work.shards, self._work.states
        anywhere = frozenset(state.zone for state in states if state.zone)
        racks = {}
        for topic, numbers in self.shards.items():
            zones = {states[self.members[place]].zone for place in self.able[topic]}
            known = {zone: frozenset([zone]) for zone in zones if zone}
            racks[topic] = [known.get(shards[each].zone or "", anywhere) for each in numbers]
        return racks

    def owned(self, owners: Callable[[int], int]) -> list[dict[str, list[int]]]:
        """Return by member what it owns; an owner who is not able to own it any more does not count."""
        owned: list[dict[str, list[int]]] = [{} for _ in self.members]
        for topic, shards in self.shards.items():
            able = set(self.able[topic])
            for number, shard in enumerate(shards):
                place = self.place.get(owners(shard), NOBODY)
                if place in able:
                    owned[place].setdefault(topic, []).append(number)
        return owned

    def shares(self, shares: Iterable[Mapping[str, Sequence[int]]]) -> dict[int, list[int]]:
        """Return the shards of each member."""
        return {
            member: [
                self.shards[topic][number] for topic, numbers in share.items() for number in numbers
            ]
            for member, share in zip(self.members, shares, strict=True)
        }


def _share_evenly(work: Work, left: Sequence[int], members: Sequence[int]) -> dict[int, list[int]]:
    topics = _Topics(work, left, members)
    subscribed: list[list[str]] = [[] for _ in members]
    for topic, able in sorted(topics.able.items()):
        for place in able:
            subscribed[place].append(topic)
    subscriptions = {
        work.members[member]: Subscription(subscribed[place], rack_id=work.states[member].zone)
        for place, member in enumerate(members)
    }
    ids = list(subscriptions)
    claims = dict(zip(ids, topics.owned(work.owners.__getitem__), strict=True))
    shares = StickyAssignor().assign_claims(
        Cluster(topics.counts, topics.racks()), subscriptions, claims, dict.fromkeys(ids, 0)
    )
    return topics.shares(shares[each] for each in ids)


def _share_by_weight(
    work: Work, left: Sequence[int], members: Sequence[int]
) -> dict[int, list[int]]:
    finest = min(_TOLERANCE, 1 / (2 * len(members)))
    if not work.measured:
        return _plan_by_weight(work, left, members, finest)
    shares = _plan_by_weight(work, left, members, _ROOMY_TOLERANCE)
    if _takes_away(work, shares, members):
        shares = _plan_by_weight(work, left, members, _ANY)
    if _is_hungry(work, shares):
        return _plan_by_weight(work, left, members, finest)
    return shares


def _takes_away(work: Work, shares: Mapping[int, list[int]], members: Sequence[int]) -> bool:
    """Return whether a shard leaves an owner that could keep it."""
    able = [set(each) & set(members) for each in work.able]
    return any(
        work.owners[shard] != member and work.owners[shard] in able[work.kinds[shard]]
        for member, share in shares.items()
        for shard in share
    )


def _is_hungry(work: Work, shares: Mapping[int, list[int]]) -> bool:
    """Return whether a member has far less to do than the others, as one that has just come."""
    assert work.weights is not None
    loads = {member: fsum(map(work.weights.__getitem__, share)) for member, share in shares.items()}
    capacity = fsum(work.capacities[member] for member in loads)
    mean = fsum(loads.values()) / capacity
    return any(
        load < _HUNGRY * mean * work.capacities[member]
        and len(shares[member]) < work.limits[member]
        for member, load in loads.items()
    )


def _plan_by_weight(
    work: Work, left: Sequence[int], members: Sequence[int], tolerance: float
) -> dict[int, list[int]]:
    assert work.weights is not None
    topics = _Topics(work, left, members)
    if not topics.shards:
        return {member: [] for member in members}
    floor = LIGHTEST * fsum(work.weights[shard] for shard in left) / len(left)
    weights = {
        topic: [max(work.weights[shard], floor) or 1.0 for shard in shards]
        for topic, shards in topics.shards.items()
    }
    owners = _with_standbys(work, left, members)
    owned = topics.owned(owners.__getitem__)
    free = {topic: set(range(count)) for topic, count in topics.counts.items()}
    for mine in owned:
        for topic, numbers in mine.items():
            free[topic].difference_update(numbers)
    zones = [work.states[member].zone or None for member in members]
    workload = Workload(
        capacities=[work.capacities[member] for member in members],
        weights=dict(sorted(weights.items())),
        subscribers=topics.able,
        ownership=Ownership(
            list(owned),
            [sum(map(len, mine.values())) for mine in owned],
            {topic: sorted(numbers) for topic, numbers in free.items() if numbers},
        ),
        racks=zones if work.have_zones else (),
        replica_racks=topics.racks(),
    )
    rack_moves = -(-len(left) // 10) if work.have_zones and not work.measured else 0
    return topics.shares(Planner(workload, tolerance, rack_moves).assignments())


def _with_standbys(work: Work, left: Sequence[int], members: Sequence[int]) -> list[int]:
    """Return the owners, where a shard without one counts as owned by its standby as long as that has room for it."""
    weights, owners = work.weights, list(work.owners)
    if not work.standbys or weights is None:
        return owners
    loads = dict.fromkeys(members, 0.0)
    for shard in left:
        if owners[shard] in loads:
            loads[owners[shard]] += weights[shard]
    capacity = fsum(work.capacities[member] for member in members)
    mean = fsum(weights[shard] for shard in left) / capacity
    for shard in sorted(work.standbys.keys() & set(left), key=lambda each: -weights[each]):
        weight = weights[shard]
        for member in work.standbys[shard]:
            if member in loads and loads[member] + weight <= mean * work.capacities[member]:
                owners[shard] = member
                loads[member] += weight
                break
    return owners


class _Holdings:
    """Who holds how much of what, while shards are passed on."""

    def __init__(self, work: Work, targets: list[int]) -> None:
        self._work = work
        self._targets = targets
        self.room = list(work.limits)
        self.of: list[dict[int, set[int]]] = [{} for _ in work.members]
        for shard, member in enumerate(targets):
            if member != NOBODY:
                self.give(shard, member)

    def give(self, shard: int, member: int) -> None:
        """Give a shard to a member, taking it from the one that has it."""
        before = self._targets[shard]
        kind = self._work.kinds[shard]
        if before not in (NOBODY, member):
            self.of[before][kind].discard(shard)
            self.room[before] += 1
        self._targets[shard] = member
        self.of[member].setdefault(kind, set()).add(shard)
        self.room[member] -= 1

    def one_of(self, member: int, kind: int) -> int:
        """Return the shard of a kind that a member can best pass on: one that it does not own."""
        owners = self._work.owners
        return min(self.of[member][kind], key=lambda shard: (owners[shard] == member, shard))


def _fill(work: Work, targets: list[int]) -> None:
    """Place what is left where others have to pass shards on for it, by augmenting paths (Ford and Fulkerson)."""
    holdings = _Holdings(work, targets)
    unplaced: dict[int, list[int]] = {}
    for shard, member in enumerate(targets):
        if member == NOBODY and work.able[work.kinds[shard]]:
            unplaced.setdefault(work.kinds[shard], []).append(shard)
    for kind, shards in unplaced.items():
        for shard in shards:
            path = _path(work, holdings, kind)
            if path is None:
                break
            passed = shard
            for member, displaced in path:
                following = holdings.one_of(member, displaced) if displaced is not None else None
                holdings.give(passed, member)
                if following is None:
                    break
                passed = following


def _path(work: Work, holdings: _Holdings, kind: int) -> list[tuple[int, int | None]] | None:
    """Find members that pass shards on until one has room: each with the kind that it passes on; None: there are none."""
    reached: dict[int, tuple[int, int] | None] = {}
    kinds = {kind}
    queue: deque[int] = deque()

    def reach(members: Sequence[int], origin: tuple[int, int] | None) -> None:
        for member in members:
            if member not in reached:
                reached[member] = origin
                queue.append(member)

    reach(work.able[kind], None)
    while queue:
        member = queue.popleft()
        if holdings.room[member] > 0:
            return list(_way(reached, member))[::-1]
        for other, shards in holdings.of[member].items():
            if shards and other not in kinds:
                kinds.add(other)
                reach(work.able[other], (member, other))
    return None


def _way(
    reached: Mapping[int, tuple[int, int] | None], member: int
) -> Iterator[tuple[int, int | None]]:
    yield member, None
    while (origin := reached[member]) is not None:
        yield origin
        member = origin[0]


def _return_what_moved_in_vain(work: Work, targets: list[int]) -> None:
    """Exchange shards so that no member loses one of a class and gains another of the same class."""
    lost: dict[tuple[int, int], list[int]] = {}
    gained: dict[tuple[int, int], set[int]] = {}
    for shard, (owner, target) in enumerate(zip(work.owners, targets, strict=True)):
        if owner != target:
            alike = work.alike[shard]
            if owner != NOBODY:
                lost.setdefault((alike, owner), []).append(shard)
            if target != NOBODY:
                gained.setdefault((alike, target), set()).add(shard)
    for (alike, owner), shards in lost.items():
        others = gained.get((alike, owner), set())
        for shard in shards:
            if not others:
                break
            target = targets[shard]
            if target == owner:
                continue
            other = others.pop()
            targets[shard], targets[other] = owner, target
            theirs = gained.get((alike, target), set())
            theirs.discard(shard)
            if target not in (NOBODY, work.owners[other]):
                theirs.add(other)


def _prefer_standbys(work: Work, targets: list[int]) -> None:
    """Exchange shards without an owner, alike ones only, so that as many as can be go to their standbys."""
    classes: dict[int, list[int]] = {}
    for shard, wanted in work.standbys.items():
        if wanted and work.owners[shard] == NOBODY:
            classes.setdefault(work.alike[shard], [])
    if not classes:
        return
    for shard, owner in enumerate(work.owners):
        if owner == NOBODY and targets[shard] != NOBODY and work.alike[shard] in classes:
            classes[work.alike[shard]].append(shard)
    for shards in classes.values():
        _match(work.standbys, shards, targets)


def _match(standbys: Mapping[int, Sequence[int]], shards: list[int], targets: list[int]) -> None:
    """Deal the targets of some shards out again: to standbys first, in the order of preference."""
    seats: dict[int, int] = {}
    for shard in shards:
        seats[targets[shard]] = seats.get(targets[shard], 0) + 1
    seated: dict[int, list[int]] = {member: [] for member in seats}
    others = iter([shard for shard in shards if not _seat(shard, standbys, seats, seated)])
    for member, count in seats.items():
        for shard in (*seated[member], *islice(others, count - len(seated[member]))):
            targets[shard] = member


def _seat(
    shard: int,
    standbys: Mapping[int, Sequence[int]],
    seats: Mapping[int, int],
    seated: Mapping[int, list[int]],
) -> bool:
    """Give a shard to one of its standbys; if all have as many as they get, let one pass another shard on."""
    wanted = [member for member in standbys.get(shard, ()) if member in seats]
    for member in wanted:
        if len(seated[member]) < seats[member]:
            seated[member].append(shard)
            return True
    for member in wanted:
        for place, other in enumerate(seated[member]):
            for further in standbys[other]:
                if further in seats and len(seated[further]) < seats[further]:
                    seated[further].append(other)
                    seated[member][place] = shard
                    return True
    return False
