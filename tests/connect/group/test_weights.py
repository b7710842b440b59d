"""Holds what is a weight."""

import pytest

from groupsdk.connect.errors import ConnectorConfigError
from groupsdk.connect.group.work import counted, weight_of


def test_weights_are_counted_in_thousandths() -> None:
    assert [counted(each) for each in (1, 2.5, "0.001", "1e6")] == [1_000, 2_500, 1, 10**9]
    assert weight_of({"task.weight": "3"}) == 3_000
    assert weight_of({}) is None


@pytest.mark.parametrize("wrong", [0, -1, 0.0001, 1_000_001, "x", "", "nan", "inf", None, True, []])
def test_bad_weight_is_refused_by_its_key(wrong: object) -> None:
    with pytest.raises(
        ConnectorConfigError, match=r"task\.weight: must be a number from 0\.001 to 1,000,000"
    ):
        counted(wrong)
