"""Elect a leader in the format of Schema Registry: protocol type `sr`, protocol `v0`, JSON.

    python examples/leader_election.py                                     starts an embedded broker
    python examples/leader_election.py --bootstrap-servers localhost:9092 --port 8082

Whoever leads the Kafka group elects: the smallest URL of the eligible, but a leader stays while it lives.
All are told the same. `--group-id schema-registry` is the default group of real Schema Registries.
"""

import argparse
import json
import signal
from contextlib import ExitStack, suppress
from typing import Any

from typing_extensions import override

from groupsdk import AbstractCoordinator, GroupMembers
from groupsdk.broker.embedded import EmbeddedBroker


Identity = dict[str, Any]
DEFAULTS: Identity = {
    "version": 1,
    "host": "localhost",
    "port": 8081,
    "master_eligibility": True,
    "scheme": "http",
    "leader": False,
}


def to_json(fields: dict[str, Any]) -> bytes:
    """Write compact JSON, without the fields that are None."""
    kept = {name: value for name, value in fields.items() if value is not None}
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=False).encode()


def elect(members: dict[str, Identity]) -> bytes:
    """Return the assignment: who leads, if anybody; error 1 where two instances share a URL."""
    urls = {key: "{scheme}://{host}:{port}".format_map(each) for key, each in members.items()}
    eligible = sorted((url, key) for key, url in urls.items() if members[key]["master_eligibility"])
    leading = [(url, key) for url, key in eligible if members[key]["leader"]]
    _, master = (leading if len(leading) == 1 else eligible or [("", "")])[0]
    error = int(len(set(urls.values())) < len(members))
    fields = {"version": 1, "error": error, "master": master or None}
    return to_json(fields | {"master_identity": members.get(master)})


class Elector(AbstractCoordinator):
    """One candidate; `identity["leader"]` tells whether it leads."""

    protocol_type = "sr"
    identity: Identity

    @override
    def metadata(self) -> dict[str, bytes]:
        return {"v0": to_json(self.identity)}

    @override
    def perform_assignment(
        self, leader_id: str, protocol: str, members: GroupMembers
    ) -> dict[str, bytes]:
        sent = {key: DEFAULTS | json.loads(metadata) for key, metadata in members.items()}
        known = {key: {name: each[name] for name in DEFAULTS} for key, each in sent.items()}
        return dict.fromkeys(members, elect(known))

    @override
    def on_join_prepare(self, generation: int, member_id: str) -> None:
        self.identity["leader"] &= generation >= 0  # who was expelled leads no more

    @override
    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        told = json.loads(assignment)
        self.identity["leader"] = not told["error"] and told.get("master") == member_id
        print(f"generation {generation}: {assignment.decode()}", flush=True)


def main() -> None:
    """Take part until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-servers", help="host:port; default: an embedded broker")
    parser.add_argument("--group-id", default="example-election")
    parser.add_argument("--session-timeout-ms", type=int, default=10_000)
    parser.add_argument("--port", type=int, default=8081)
    parser.add_argument("--not-eligible", action="store_false", dest="master_eligibility")
    settings = vars(parser.parse_args())
    settings["heartbeat_interval_ms"] = min(1_000, settings["session_timeout_ms"] // 6)
    identity = {name: settings.pop(name, value) for name, value in DEFAULTS.items()}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt), ExitStack() as stack:
        if settings["bootstrap_servers"] is None:
            settings["bootstrap_servers"] = stack.enter_context(EmbeddedBroker()).bootstrap_servers
        print("brokers:", settings["bootstrap_servers"], flush=True)
        elector = stack.enter_context(Elector(settings))
        elector.identity = identity
        while True:
            elector.poll(1.0)
    print("left the group", flush=True)


if __name__ == "__main__":
    main()
