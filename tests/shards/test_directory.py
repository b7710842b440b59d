"""Test the directory of shards, on an embedded broker with members that are given their shards by hand."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from typing_extensions import override

from groupsdk import AbstractCoordinator, GroupMembers
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.errors import ConfigError, GroupSdkError
from groupsdk.shards import AsyncShardDirectory, OwnerChange, ShardDirectory
from groupsdk.wire.shards.protocol import (
    MemberState,
    ShardAssignment,
    encode_assignment,
    encode_member,
)
from tests.support.workers import eventually


pytestmark = pytest.mark.timeout(300)


class Member(AbstractCoordinator):
    """Gives each member, as the leader, the shards that its client id names in `shares`."""

    protocol_type = "crawl"

    def __init__(self, name: str, shares: Mapping[str, Mapping[str, int]], **settings: Any) -> None:
        self.name, self.shares = name, shares
        super().__init__(**settings)

    @override
    def metadata(self) -> dict[str, bytes]:
        return {
            "shards": encode_member(
                MemberState(endpoint=f"http://{self.name}", client_id=self.name)
            )
        }

    @override
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> dict[str, bytes]:
        from groupsdk.wire.shards.protocol import decode_member

        names = {member: decode_member(data).client_id for member, data in members.items()}
        return {
            member: encode_assignment(ShardAssignment(1, 1, self.shares.get(name, {})))
            for member, name in names.items()
        }

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None: ...


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


def test_owners_are_known_and_followed(broker: EmbeddedBroker, group_id: str) -> None:
    servers = broker.bootstrap_servers
    shares: dict[str, dict[str, int]] = {"a": {"s-1": 5, "s-2": 5}}
    seen: list[OwnerChange] = []
    with ShardDirectory(bootstrap_servers=servers, group_id=group_id, refresh_ms=100) as directory:
        assert directory.owner("s-1", 0) is None

        def watch() -> None:
            for changes in directory.watch():
                seen.extend(changes)

        watching = threading.Thread(target=watch)
        watching.start()
        with Member("a", shares, bootstrap_servers=servers, group_id=group_id) as member:
            assert member.ensure_active_group(60)
            found = directory.owner("s-1", 60)
            assert found is not None
            assert (found.member_id, found.endpoint, found.epoch) == (
                member.member_id(),
                "http://a",
                5,
            )
            shares["a"] = {"s-1": 5, "s-3": 7}
            member.request_rejoin("for the test")
            assert member.ensure_active_group(60)
            eventually(lambda: "s-3" in directory.owners() and "s-2" not in directory.owners())
            assert directory.trouble() is None
            age_ms = directory.age_ms()
            assert age_ms is not None
            assert age_ms >= 0
        eventually(lambda: not directory.owners())
    watching.join(60)
    assert not watching.is_alive()
    gone = [each.name for each in seen if each.after is None]
    assert gone[0] == "s-2"
    assert {each.name for each in seen} == {"s-1", "s-2", "s-3"}


def test_a_report_of_a_wrong_owner_has_the_group_looked_at_soon(
    broker: EmbeddedBroker, group_id: str
) -> None:
    servers = broker.bootstrap_servers
    shares: dict[str, dict[str, int]] = {"a": {"s": 5}}
    with (
        Member("a", shares, bootstrap_servers=servers, group_id=group_id) as member,
        ShardDirectory(
            bootstrap_servers=servers, group_id=group_id, refresh_ms=3_600_000
        ) as directory,
    ):
        assert member.ensure_active_group(60)
        before = directory.owner("s", 60)
        assert before is not None
        shares["a"] = {"s": 8}
        member.request_rejoin("for the test")
        assert member.ensure_active_group(60)
        assert directory.owner("s") == before, "an hour is not over"
        directory.report_wrong_owner("s", before)

        def epoch() -> int:
            found = directory.owner("s", 0)
            return 0 if found is None else found.epoch

        eventually(lambda: epoch() == 8)


def test_errors_are_raised_until_the_group_has_been_seen(
    broker: EmbeddedBroker, group_id: str
) -> None:
    class Other(Member):
        @override
        def metadata(self) -> dict[str, bytes]:
            return {"other": b""}

        @override
        def perform_assignment(
            self, leader_id: str, protocol: str, members: GroupMembers
        ) -> dict[str, bytes]:
            return {}

    servers = broker.bootstrap_servers
    with Other("a", {}, bootstrap_servers=servers, group_id=group_id) as member:
        assert member.ensure_active_group(60)
        with ShardDirectory(bootstrap_servers=servers, group_id=group_id) as directory:
            with pytest.raises(ConfigError, match="shares out no shards"):
                directory.owner("s", 60)
            assert "shares out no shards" in (directory.trouble() or "")
    with pytest.raises(GroupSdkError, match="is closed"):
        directory.owner("s")
    with pytest.raises(ConfigError, match="refresh_ms must be at least 100, not 5"):
        ShardDirectory(bootstrap_servers=servers, group_id=group_id, refresh_ms=5)
    with pytest.raises(ConfigError, match="group_id must be the name of a group, not ''"):
        ShardDirectory(bootstrap_servers=servers, group_id="")


def test_closed_directory_ends_what_watches_it_and_fails_what_waits(
    broker: EmbeddedBroker, group_id: str
) -> None:
    directory = ShardDirectory(bootstrap_servers=broker.bootstrap_servers, group_id=group_id)
    failed: list[GroupSdkError] = []

    def wait() -> None:
        try:
            directory.owner("s", 600)
        except GroupSdkError as error:
            failed.append(error)

    with directory:
        eventually(lambda: directory.owner("s", 0) is None)
        between, under_way = directory.watch(), directory.watch()
        ended: list[list[object]] = []
        threads = [
            threading.Thread(target=wait),
            threading.Thread(target=lambda: ended.append(list(under_way))),
        ]
        for each in threads:
            each.start()
        changed: Any = vars(vars(directory)["_directory"])["_changed"]
        eventually(lambda: len(changed._waiters) == 2)
    for each in threads:
        each.join(60)
    assert [str(each) for each in failed] == ["the directory was closed meanwhile"]
    assert ended == [[]]
    assert list(between) == []
    with pytest.raises(ConfigError, match="is closed"):
        directory.report_wrong_owner("s")


def test_asyncio_has_the_same(broker: EmbeddedBroker, group_id: str) -> None:
    servers = broker.bootstrap_servers
    shares: dict[str, dict[str, int]] = {"a": {"s": 5}}

    async def look() -> None:
        async with AsyncShardDirectory(
            {"bootstrap.servers": servers}, group_id=group_id, refresh_ms=100
        ) as directory:
            found = await directory.owner("s", 60)
            assert found is not None
            assert found.endpoint == "http://a"
            async for changes in directory.watch():
                assert changes == (OwnerChange("s", None, found),)
                break
            assert await directory.owner("t", 0.01) is None

    with Member("a", shares, bootstrap_servers=servers, group_id=group_id) as member:
        assert member.ensure_active_group(60)
        asyncio.run(look())


def test_timeout_that_is_not_a_number_is_refused() -> None:
    text: Any = "soon"
    with (
        ShardDirectory(bootstrap_servers="localhost:1", group_id="g") as directory,
        pytest.raises(TypeError, match="timeout must be a number of seconds, not 'soon'"),
    ):
        directory.owner("x", timeout=text)
