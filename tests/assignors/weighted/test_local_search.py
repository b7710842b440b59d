"""Test the single moves and swaps that bring members below a load."""

from hypothesis import given, settings, strategies as st

from assignors.weighted.local_search import Item, LocalSearch


def searched(
    weights: list[list[float]], goal: float, barred: frozenset[int] = frozenset()
) -> tuple[bool, list[list[float]], int]:
    """Searches; returns whether it worked, what each member has then, and the number of moves."""
    held: list[set[Item]] = [
        {(1, -weight, f"m{member}", number) for number, weight in enumerate(mine)}
        for member, mine in enumerate(weights)
    ]
    search = LocalSearch(
        [sum(mine) for mine in weights],
        [1.0] * len(weights),
        goal,
        lambda member: set(held[member]),
        lambda member, _: member not in barred,
    )
    done = search.run()
    for item, source, target in search.moves:
        held[source].remove(item)
        held[target].add(item)
    return done, [sorted(-item[1] for item in mine) for mine in held], len(search.moves)


def test_nothing_to_do() -> None:
    assert searched([[2.0], [1.0]], 2.0) == (True, [[2.0], [1.0]], 0)


def test_the_lightest_that_makes_up_for_the_excess_is_moved() -> None:
    assert searched([[1.0, 2.0, 3.0, 4.0], [1.0]], 8.0) == (
        *(True, [[1.0, 3.0, 4.0], [1.0, 2.0]]),
        1,
    )


def test_a_swap_where_no_move_fits() -> None:
    assert searched([[5.0, 6.0], [4.0, 5.0]], 10.0) == (True, [[4.0, 6.0], [5.0, 5.0]], 2)


def test_several_moves_to_several_members() -> None:
    done, held, moves = searched([[2.0] * 6, [2.0], [2.0]], 6.0)

    assert done
    assert moves == 3
    assert sorted(map(sum, held)) == [4.0, 6.0, 6.0]


def test_barred_member_gets_no_partition() -> None:
    assert searched([[2.0, 2.0], []], 2.0, barred=frozenset({1}))[0] is False


def test_goal_out_of_reach_is_not_met() -> None:
    assert searched([[3.0, 3.0], [2.0]], 3.0)[0] is False


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 9).map(float), max_size=6), min_size=1, max_size=5),
    st.floats(1.0, 1.5),
)
def test_search_returns_the_holdings_and_whether_they_meet_the_goal(
    weights: list[list[float]], slack: float
) -> None:
    goal = sum(map(sum, weights)) / len(weights) * slack

    done, held, _ = searched(weights, goal)

    assert sorted(weight for mine in held for weight in mine) == sorted(
        weight for mine in weights for weight in mine
    )
    # members within the goal stay within it, whatever comes of the others
    for before, after in zip(weights, held, strict=True):
        assert sum(after) <= max(goal, sum(before)) + 1e-9
    if done:
        assert max(map(sum, held)) <= goal + 1e-9
