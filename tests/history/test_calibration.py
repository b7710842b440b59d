"""How sure causes are said to be, held against recorded logs; and that the docs say so."""

from collections import defaultdict
from pathlib import Path

import pytest

from tests.history.calibration import BANDS, BEGIN, END, PAGE, Call, every_call, table, write


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Call]:
    """All that is told of the logs that the tests have."""
    return every_call([], tmp_path_factory.mktemp("logs"))


def test_of_what_is_told_for_nearly_certain_nine_tenths_are_right(found: list[Call]) -> None:
    of_kind: defaultdict[str, list[bool]] = defaultdict(list)
    for call in found:
        if call.confidence >= 0.9:
            of_kind[call.kind].append(call.is_right)
    assert len(of_kind) == 11
    shares = {kind: sum(right) / len(right) for kind, right in of_kind.items()}
    assert all(share >= 0.9 for share in shares.values()), shares
    # it is not said of a few only
    assert sum(map(len, of_kind.values())) > len(found) / 2


def test_causes_of_lower_confidence_are_right_less_often(found: list[Call]) -> None:
    shares = []
    for low, high in BANDS[:3]:
        band = [call.is_right for call in found if low <= call.confidence < high]
        shares.append(sum(band) / len(band))
    assert min(shares[:2]) > 0.9 > shares[2] > 0.4


def test_the_docs_have_the_table(found: list[Call], tmp_path: Path) -> None:
    whole = PAGE.read_text(encoding="utf-8")
    assert f"{BEGIN}\n\n{table(found)}\n\n{END}" in whole
    copy = tmp_path / "page.md"
    copy.write_text(whole, encoding="utf-8")
    write(table(found), copy)
    assert copy.read_text(encoding="utf-8") == whole
