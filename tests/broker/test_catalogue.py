"""Tests what a cluster knows of itself."""

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from typing import Any, ClassVar
from uuid import UUID

import pytest
from typing_extensions import override

from groupsdk.broker.catalogue import (
    Catalogue,
    new_cluster_id,
    new_topic_id,
    topic_name_problem,
)
from groupsdk.broker.store import Change, MemoryStore, StoreError


def test_a_new_cluster_has_an_id_that_stays() -> None:
    store = MemoryStore()
    first = Catalogue(store)
    assert len(first.cluster_id) == 22
    assert Catalogue(store).cluster_id == first.cluster_id
    assert Catalogue(MemoryStore(), "given").cluster_id == "given"


def test_topics_and_their_leaders_last() -> None:
    store = MemoryStore()
    catalogue = Catalogue(store)
    made = catalogue.create_topics({"t": [1, 2], "u": [1]}, {"t": {"retention.ms": "5"}})
    catalogue.add_partitions("u", [2, 2])
    catalogue.move_leaders({("t", 0): 2, ("u", 2): 1})

    again = Catalogue(store)
    leaders = {
        name: [(each.leader, each.leader_epoch) for each in topic.partitions]
        for name, topic in again.topics.items()
    }
    assert leaders == {"t": [(2, 1), (2, 0)], "u": [(1, 0), (2, 0), (1, 1)]}
    assert again.topics["t"].topic_id == made[0].topic_id
    assert again.topics_by_id[made[1].topic_id].name == "u"
    assert again.config("topic", "t") == {"retention.ms": "5"}
    assert again.configured("topic") == ["t"]


def test_the_version_of_the_topics_is_never_that_of_others() -> None:
    """A resolved expression is kept with it in the log of a group, which outlives the process."""
    store = MemoryStore()
    catalogue = Catalogue(store)
    versions = [catalogue.topics_version]
    catalogue.create_topics({"t": [1], "u": [1]})
    versions.append(catalogue.topics_version)
    catalogue.add_partitions("u", [1])
    versions.append(catalogue.topics_version)
    catalogue.delete_topic("t")
    again = Catalogue(store)
    assert again.topics_version == catalogue.topics_version
    again.create_topics({"v": [1]})
    versions += [catalogue.topics_version, again.topics_version]
    assert versions == sorted(set(versions))


def test_a_deleted_topic_takes_its_settings_along() -> None:
    store = MemoryStore()
    catalogue = Catalogue(store)
    catalogue.create_topics({"t": [1]}, {"t": {"retention.ms": "5"}})
    catalogue.delete_topic("t")
    for each in (catalogue, Catalogue(store)):
        assert not each.topics
        assert not each.topics_by_id
        assert each.config("topic", "t") == {}


def test_settings_are_replaced() -> None:
    store = MemoryStore()
    catalogue = Catalogue(store)
    catalogue.set_config("topic", "t", {"a": "1"})
    catalogue.set_config("topic", "t", {"b": "2"})
    assert Catalogue(store).config("topic", "t") == {"b": "2"}
    catalogue.set_config("topic", "t", {})
    assert Catalogue(store).configured("topic") == []


def test_a_number_never_comes_twice() -> None:
    store = MemoryStore()
    assert [Catalogue(store).next_number("n") for _ in range(3)] == [1, 2, 3]


class FailingStore(MemoryStore):
    """A store that cannot be written any more."""

    failing = False

    @override
    def write(self, changes: Iterable[Change]) -> None:
        if self.failing:
            raise StoreError("no room")
        super().write(changes)


def test_catalogue_change_that_cannot_be_stored_is_not_visible() -> None:
    store = FailingStore()
    catalogue = Catalogue(store)
    catalogue.create_topics({"t": [1]})
    store.failing = True
    for change in (
        lambda: catalogue.create_topics({"u": [1]}),
        lambda: catalogue.delete_topic("t"),
        lambda: catalogue.add_partitions("t", [1]),
        lambda: catalogue.move_leaders({("t", 0): 2}),
        lambda: catalogue.set_config("topic", "t", {"a": "1"}),
    ):
        with pytest.raises(StoreError):
            change()
    (topic,) = catalogue.topics.values()
    assert [(each.leader, each.leader_epoch) for each in topic.partitions] == [(1, 0)]
    assert catalogue.config("topic", "t") == {}


@pytest.mark.parametrize("name", ["t", "a.b_c-D9", "x" * 249])
def test_names_that_are_allowed(name: str) -> None:
    assert topic_name_problem(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "ä", "a/b", "a\0"])
def test_names_that_are_not(name: str) -> None:
    assert topic_name_problem(name)


def test_names_that_collide() -> None:
    store = MemoryStore()
    Catalogue(store).create_topics({"a_b": [1], "c": [1], "d.e": [1], "d_e": [1]})
    catalogue = Catalogue(store)
    assert catalogue.collision("a.b") == "a_b"
    assert catalogue.collision("a_b") is None
    assert catalogue.collision("ab") is None
    assert catalogue.collision("d.e") == "d_e"
    catalogue.delete_topic("a_b")
    catalogue.delete_topic("d_e")
    assert catalogue.collision("a.b") is None
    assert catalogue.collision("d.e") is None
    assert catalogue.collision("d_e") == "d.e"


class _ReadName(str):
    __slots__ = ()
    times: ClassVar[int] = 0

    @override
    def replace(self, *words: Any, **options: Any) -> str:
        _ReadName.times += 1
        return super().replace(*words, **options)


def test_a_collision_is_found_without_reading_every_name() -> None:
    catalogue = Catalogue(MemoryStore())
    catalogue.create_topics({_ReadName(f"a.{number}"): [1] for number in range(100)})
    _ReadName.times = 0
    assert catalogue.collision("a_99") == "a.99"
    assert catalogue.collision("a_100") is None
    assert _ReadName.times == 0


def test_ids_are_new_and_never_look_like_an_option() -> None:
    ids = {new_topic_id() for _ in range(2_000)}
    assert len(ids) == 2_000
    assert all(isinstance(each, UUID) for each in ids)
    assert not any(urlsafe_b64encode(each.bytes).startswith(b"-") for each in ids)
    assert len(new_cluster_id()) == 22
