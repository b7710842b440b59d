"""Hold the table of docs/user-code.md for the embedded broker: whatever user code does, it answers everybody else."""

from collections.abc import Iterator
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Any

import pytest
from typing_extensions import override

from groupsdk.broker.consumer_groups.assignors import GroupSpec, UniformAssignor
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.server import token_threads
from groupsdk.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from groupsdk.wire.messages.metadata import MetadataRequest
from groupsdk.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from groupsdk.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.clients import Client, connect
from tests.broker.consumer_groups.members import WireMember
from tests.support.workers import eventually
from tests.user_code.misdeeds import DEEDS, HANG, RAISED, SPIN, WRONG, Misdeeds, name_of


pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def misdeeds() -> Iterator[Misdeeds]:
    made = Misdeeds()
    yield made
    made.over.set()


class Odd(UniformAssignor):
    """Misbehaves."""

    def __init__(self, misdeeds: Misdeeds, deed: str) -> None:
        self.name = deed
        self._misdeeds = misdeeds

    @override
    def assign(self, group: GroupSpec) -> Any:
        return self._misdeeds.do(self.name) or super().assign(group)


def test_assignors_of_the_coordinator(misdeeds: Misdeeds) -> None:
    settings = {"group.consumer.assignor.timeout.ms": 2_000}
    odd = [Odd(misdeeds, deed) for deed in DEEDS]
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(settings, topics={"t": 4}, assignors=odd))
        for deed in (*DEEDS, *DEEDS):  # twice: the first one must not have ended the thread
            with WireMember(broker, f"g-{deed}", "m1", server_assignor=deed) as member:
                member.heartbeat()
                misdeeds.await_begun(deed)
                with WireMember(broker, f"other-{deed}", "m1") as other, connect(broker) as client:
                    other.until(4)
                    assert client.ask(MetadataRequest(()), 12).brokers

                def refused(member: WireMember = member) -> ConsumerGroupHeartbeatResponse | None:
                    answer = member.heartbeat()
                    return answer if answer.error_code == -1 else None

                said = eventually(refused).error_message or ""
                if deed in RAISED:
                    assert name_of(deed) in said
                elif deed == WRONG:
                    assert "must return a mapping of member ids to partitions" in said
                else:
                    assert "took longer than" in said or "has been running" in said


_FIRST = SaslAuthenticateRequest(b"n,,\x01auth=Bearer token\x01\x01")


def begun(client: Client) -> tuple[int, int]:
    """Send a token."""
    assert client.ask(SaslHandshakeRequest("OAUTHBEARER"), 1).error_code == 0
    return client.send(_FIRST, 2)


def authenticated(client: Client, sent: tuple[int, int]) -> bool:
    """Return whether the broker takes the token."""
    answer = client.answer(_FIRST, sent)
    return answer.error_code == 0 and not answer.auth_bytes


def test_token_validators(misdeeds: Misdeeds, monkeypatch: pytest.MonkeyPatch) -> None:
    deeds: SimpleQueue[str | None] = SimpleQueue()
    settings = {
        "listeners": "SASL://127.0.0.1:0",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
    }
    with EmbeddedBroker(
        settings, token_validator=lambda _: misdeeds.do(deeds.get()) or "alice"
    ) as broker:
        for deed in DEEDS:
            with connect(broker) as client, connect(broker) as other:
                with monkeypatch.context() as patch:
                    if deed in (HANG, SPIN):
                        patch.setattr(token_threads, "_LIMIT_MS", 100)
                    deeds.put(deed)
                    sent = begun(client)
                    misdeeds.await_begun(deed)
                deeds.put(None)
                assert authenticated(other, begun(other))
                assert other.ask(MetadataRequest(()), 12).brokers
                assert not authenticated(client, sent)
