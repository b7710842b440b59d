"""A wrong argument is named; a right one never is."""

from typing import Any

import pytest

from assignors import resolve
from groupsdk.assignment import Cluster, Subscription


_ALL = ["range", "roundrobin", "sticky", "cooperative-sticky", "weighted", "lag"]
_OWNERS = ["cooperative-sticky", "weighted", "lag"]
_CLUSTER = Cluster({"t": 4})


def _fails(assignor: str, cluster: Any, subscriptions: Any) -> str:
    with pytest.raises(TypeError) as caught:
        resolve(assignor).assign(cluster, subscriptions)
    return str(caught.value)


@pytest.mark.parametrize("assignor", _ALL)
def test_bad_subscriptions_are_refused_by_every_assignor(assignor: str) -> None:
    nothing: Any = None
    good = Subscription(["t"])
    members: Any = {"a": good, "b": Subscription(nothing)}
    assert _fails(assignor, _CLUSTER, members) == (
        "member 'b': topics is None, not a list of names"
    )
    members = {"a": Subscription([["t"]])}  # type: ignore[list-item]  # what is tested
    assert _fails(assignor, _CLUSTER, members) == "member 'a': topic ['t'] is not a str"
    assert _fails(assignor, _CLUSTER, {"a": ["t"]}) == "member 'a': ['t'] is not a Subscription"
    assert "not a mapping of member id" in _fails(assignor, _CLUSTER, [good])
    assert _fails(assignor, {"t": 4}, {"a": good}) == "the cluster is {'t': 4}, not a Cluster"
    # What is told already stays as it is.
    assert "the number of partitions is '4'" in _fails(
        assignor,
        Cluster({"t": "4"}),  # type: ignore[dict-item]  # what is tested
        {"a": good},
    )


@pytest.mark.parametrize("assignor", _OWNERS)
@pytest.mark.parametrize(
    ("owned", "message"),
    [
        ({"t": ["0"]}, "member 'a': owned partition '0' of 't' is not an int"),
        ({"t": None}, "member 'a': owned_partitions of 't' are None, not a list of numbers"),
        (
            [("t", 1)],
            "member 'a': owned_partitions are [('t', 1)], not a mapping of topic to partitions",
        ),
    ],
)
def test_bad_owned_partitions_are_refused(assignor: str, owned: Any, message: str) -> None:
    members = {"a": Subscription(["t"], owned_partitions=owned, generation_id=1)}
    assert _fails(assignor, _CLUSTER, members) == message


def test_user_data_and_generation_of_a_wrong_type_are_refused() -> None:
    wrong: Any = "text"
    members = {"a": Subscription(["t"], wrong)}
    assert _fails("sticky", _CLUSTER, members) == "member 'a': user_data is 'text', not bytes"
    members = {"a": Subscription(["t"], generation_id=wrong)}
    assert _fails("cooperative-sticky", _CLUSTER, members) == (
        "member 'a': generation_id is 'text', not an int"
    )


@pytest.mark.parametrize("assignor", ["range", "sticky", "cooperative-sticky", "weighted", "lag"])
def test_bad_replica_racks_are_refused(assignor: str) -> None:
    nothing: Any = None
    members = {name: Subscription(["t"], rack_id=name) for name in "ab"}
    racks: Any = [("a",), nothing, ("b",), ("b",)]
    assert _fails(assignor, Cluster({"t": 4}, {"t": racks}), members) == (
        "topic 't': the racks of partition 1 are None, not a list of names"
    )
    assert "replica_racks are None" in _fails(assignor, Cluster({"t": 4}, {"t": nothing}), members)


def test_an_error_of_another_kind_comes_through() -> None:
    with pytest.raises(ValueError, match="not 0 to"):
        resolve("sticky").assign(Cluster({"t": -1}), {"a": Subscription(["t"])})


@pytest.mark.parametrize("assignor", _ALL)
def test_private_names_of_an_assignor_leave_those_of_subclasses_alone(assignor: str) -> None:
    made = resolve(assignor)
    kind = type(made)
    names = {*getattr(made, "__dict__", {}), *vars(kind)}
    private = {name for name in names if name[:1] == "_" and name[:2] != "__"} - {"_abc_impl"}
    assert [name for name in private if not name.startswith(f"_{kind.__name__}__")] == []
