"""Elect a leader in the format of Karapace: protocol type `sr`, protocol `v0`, JSON, identities of version 2.

    python examples/karapace_election.py --bootstrap-servers localhost:9092 --port 8082

Without servers it starts a Kafka of its own. The lowest URL is elected, and waits before it acts.
"""

import argparse
import json
import signal
from contextlib import ExitStack, suppress
from typing import Any

from typing_extensions import override

from groupsdk import AbstractCoordinator, GroupMembers
from groupsdk.clock import SystemClock
from groupsdk.testing import LocalKafka


Identity = dict[str, Any]
URL = "{scheme}://{host}:{port}"
WAIT_MS = 5_000


def elect(members: dict[str, Identity]) -> bytes:
    """Return the assignment, the same for all members."""
    order = sorted(
        (not each["master_eligibility"], URL.format_map(each), key) for key, each in members.items()
    )
    master = order[0][2]
    fields = {"master": master, "master_identity": members[master], "error": 0}
    return json.dumps(fields, separators=(",", ":")).encode()


class Elector(AbstractCoordinator):
    """One candidate; `url` tells who leads."""

    protocol_type = "sr"
    identity: Identity
    url: str | None = None
    acts_at_ms: int | None = None

    @override
    def metadata(self) -> dict[str, bytes]:
        return {"v0": json.dumps(self.identity).encode()}

    @override
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> dict[str, bytes]:
        return dict.fromkeys(
            members, elect({key: json.loads(data) for key, data in members.items()})
        )

    @override
    def on_join_prepare(self, generation: int, member_id: str) -> None:
        if generation == -1:
            self.url = self.acts_at_ms = None

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        told = json.loads(assignment)
        leader = told["master_identity"]
        self.url = URL.format_map(leader) if leader["master_eligibility"] else None
        if self.url is None or told["master"] != member_id:
            self.acts_at_ms = None
        elif self.acts_at_ms is None:
            self.acts_at_ms = SystemClock().now_ms() + WAIT_MS
        print(f"generation {generation}: the leader is {self.url}", flush=True)

    @property
    def acts(self) -> bool:
        """Whether this one leads, has waited, and is certainly still a member."""
        waited = self.acts_at_ms is not None and SystemClock().now_ms() >= self.acts_at_ms
        return waited and self.generation_if_stable() is not None


def main() -> None:
    """Take part until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers", help="host:port; default: a Kafka of its own")
    parser.add_argument("--group-id", default="schema-registry")
    parser.add_argument("--port", type=int, default=8081)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt), ExitStack() as stack:
        servers = given.bootstrap_servers or stack.enter_context(LocalKafka()).bootstrap_servers
        elector = stack.enter_context(Elector(bootstrap_servers=servers, group_id=given.group_id))
        elector.identity = {"version": 2, "karapace_version": "groupsdk", "host": "localhost"}
        elector.identity |= {"port": given.port, "scheme": "http", "master_eligibility": True}
        while True:
            elector.poll(1.0)


if __name__ == "__main__":
    main()
