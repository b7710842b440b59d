"""Test the search for the least loaded member against looking at all of them."""

from hypothesis import given, settings, strategies as st

from assignors.weighted.least_loaded import LeastLoaded, LeastLoadedAmong, heaviest_load


weights = st.lists(st.integers(1, 50).map(float), max_size=40)
capacities = st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=1, max_size=6)


@settings(deadline=None)
@given(capacities, weights)
def test_least_loaded_of_all_members_is_found(strengths: list[float], added: list[float]) -> None:
    members = range(len(strengths))
    loads = [float(member % 3) for member in members]
    search = LeastLoaded(loads, strengths, members)

    for weight in added:
        chosen = search.add(weight)
        least = min((loads[m] + weight) / strengths[m] for m in members)
        loads[chosen] += weight
        assert loads[chosen] / strengths[chosen] == least
    assert search.loads == loads


def test_any_member_of_some() -> None:
    search = LeastLoaded([0.0] * 4, [1.0] * 4, [1, 3])

    assert [search.add(1.0) for _ in range(4)] == [1, 3, 1, 3]


@settings(deadline=None)
@given(capacities, weights, st.data())
def test_least_loaded_of_some_members_is_found(
    strengths: list[float], added: list[float], data: st.DataObject
) -> None:
    members = range(len(strengths))
    loads = [float(member % 3) for member in members]
    limit = 20.0
    search = LeastLoadedAmong(loads, strengths, limit)

    for weight in added:
        allowed = data.draw(st.sets(st.sampled_from(members), min_size=1))
        bits = sum(1 << member for member in allowed)
        before = [(loads[m] + weight) / strengths[m] for m in members]
        foreseen = search.load_with(bits, weight)
        chosen = search.add(bits, weight)
        loads[chosen] += weight
        assert chosen in allowed
        assert before[chosen] == foreseen
        # to one level of load, which is a part of the limit, or of the load itself where that is greater
        least = min(before[m] for m in allowed)
        assert before[chosen] <= least + max(limit, least) / 512
    assert search.loads == loads


def test_load_given_away_counts_in_the_search() -> None:
    search = LeastLoadedAmong([0.0, 0.0], [1.0, 1.0], 1.0)

    search.give(0, 1.0)

    assert search.add(0b11, 1.0) == 1


def test_a_load_far_over_the_limit() -> None:
    search = LeastLoadedAmong([1e21, 2e21], [1.0, 1.0], 1e-3)

    assert search.add(0b11, 1.0) == 0


def test_the_heaviest_load() -> None:
    assert heaviest_load([4.0, 3.0], [2.0, 1.0]) == 3.0
    assert heaviest_load([], []) == 0.0
