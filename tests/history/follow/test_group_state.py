"""The walk over a group, taken apart to bytes and put together between any two records."""

import pickle
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from typing_extensions import override

from assignors.range import RangeAssignor
from groupsdk.errors import DecodeError
from groupsdk.history.explain import arrow_batches
from groupsdk.history.explain.arrow_batches import entries
from groupsdk.history.explain.explaining import Context
from groupsdk.history.follow import update_steps
from groupsdk.history.follow.group_state import (
    FINGERPRINTED,
    FollowedGroup,
    ReplayContext,
    fingerprint,
)
from groupsdk.history.pipeline import DEFAULT_ASSIGNORS
from groupsdk.history.read import buckets
from groupsdk.history.sources.segment_files import segment_tasks
from groupsdk.history.tables import schemas, table_files
from groupsdk.history.tables.stages import RECORDS
from tests.history.expected_tables import LOGS


def walked(records: list[Any], walking: ReplayContext, *, often: bool) -> list[str]:
    """Walk over groups; `often`: with a stop before each record."""
    found: list[Any] = []
    groups: list[FollowedGroup] = []
    for entry in records:
        if not groups or groups[-1].group_id != entry.group_id:
            groups.append(walking.group(entry.group_id))
        if often:
            found.append(taken(groups[-1]))
            data = walking.dump(groups[-1])
            assert data is not None
            groups[-1] = walking.load(data)
        groups[-1].take(entry)
        found.append(taken(groups[-1]))
    for group in groups:
        group.close()
        found += [taken(group), group.tally, group.sizes]
    return [str(each) for each in found if each]


def taken(group: FollowedGroup) -> dict[str, list[Any]]:
    """Take the rows that a group has made."""
    rows = {name: list(made) for name, made in group.tables.items() if made}
    group.tables.clear()
    return rows


def test_a_walk_goes_on_from_its_bytes_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    log = LOGS["protocols"](tmp_path)
    made = [
        rows for task in segment_tasks(str(log)) for name, rows in task.read() if name == RECORDS
    ]
    ordered = buckets.in_order(pa.Table.from_batches(made))
    records = list(entries(ordered.to_batches()))
    walking = ReplayContext(Context(assignors=DEFAULT_ASSIGNORS))
    assert walked(records, walking, often=True) == walked(records, walking, often=False)


def test_stored_group_state_holds_nothing_of_the_log_context() -> None:
    before = Context(names={"id": "a name that is long enough to be found"})
    walking = ReplayContext(before)
    data = walking.dump(walking.group("g"))
    assert data is not None
    assert b"long enough" not in data
    after = Context(names={"id": "another"}, learned_session_timeout_ms=7)
    found: Any = ReplayContext(after).load(data)
    assert found._context is after
    assert found._assignments._names is after.names


class Touchy(RangeAssignor):
    """An assignor that cannot be pickled."""

    def __init__(self) -> None:
        self.lock = Lock()


def test_a_group_whose_assignor_cannot_be_kept_has_no_bytes() -> None:
    walking = ReplayContext(Context(assignors=(RangeAssignor,)))
    group: Any = walking.group("g")
    assert walking.dump(group) is not None
    group._replay = Touchy()
    assert walking.dump(group) is None


class Harm:
    """Calls something as it is read."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._called = function, arguments

    @override
    def __reduce__(self) -> Any:
        return self._called


def test_bytes_make_nothing_but_a_group() -> None:
    walking = ReplayContext(Context())
    with pytest.raises(DecodeError, match=r"system.*does not belong"):
        walking.load(pickle.dumps(Harm(__import__("os").system, "true")))
    with pytest.raises(DecodeError, match=r"eval.*does not belong"):
        walking.load(pickle.dumps(Harm(eval, "1")))
    # nor what a module of the package has imported
    smuggled = b"cgroupsdk.history.local\nProcessPoolExecutor\n."
    with pytest.raises(DecodeError, match="does not belong"):
        walking.load(smuggled)
    with pytest.raises(DecodeError, match="is a set"):
        walking.load(pickle.dumps({1}))
    with pytest.raises(DecodeError, match="cannot be read"):
        walking.load(b"")


def test_the_code_has_a_fingerprint() -> None:
    assert fingerprint() == fingerprint()
    assert len(fingerprint()) == 16


@pytest.mark.parametrize("module", [arrow_batches, buckets, schemas, table_files, update_steps])
def test_the_fingerprint_covers_the_code_behind_tables_and_states(module: ModuleType) -> None:
    history, folder, *_ = module.__name__.removeprefix("groupsdk.").split(".")
    assert history == "history"
    assert folder in FINGERPRINTED
