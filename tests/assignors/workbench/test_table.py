"""Holds the table to a small one, letter for letter."""

from assignors.workbench.simulation import table
from tests.assignors.workbench.outcomes import outcome


def test_simulation_table_has_aligned_columns() -> None:
    rows = [
        [outcome("one", "start"), outcome("a-long-name-of-an-assignor", "start", cpu_ms=12.34)],
        [
            outcome("one", "b leaves", moves=10, least_moves=2, is_fairest=False, most=13),
            outcome("a-long-name-of-an-assignor", "b leaves", problems=("it is wrong",)),
        ],
    ]

    text = table(["one", "a-long-name-of-an-assignor"], ["start", "b leaves"], rows)

    assert text.splitlines() == [
        "                   |  one                          |  a-long-name-of-an-assignor",
        "event     members  |   moves  loads  rounds    ms  |    moves  loads  rounds     ms",
        "start           2  |   0 (0)    2-3       1  1.00  |    0 (0)    2-3       1  12.34",
        "b leaves        2  |  10 (2)  2-13!       1  1.00  |  invalid              1   1.00",
    ]
