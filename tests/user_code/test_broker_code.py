"""Hold the table of docs/user-code.md for the embedded broker: whatever user code does, it answers everybody else."""

from contextlib import ExitStack
from queue import SimpleQueue
from typing import Any

import pytest
from typing_extensions import override

from groupsdk.broker.coordinator.consumer.assignors import GroupSpec, UniformAssignor
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.broker.server import token_threads
from groupsdk.wire.messages.connection import SaslAuthenticateRequest, SaslHandshakeRequest
from groupsdk.wire.messages.consumer_groups import ConsumerGroupHeartbeatResponse
from groupsdk.wire.messages.metadata import MetadataRequest
from tests.broker.clients import Client, connect
from tests.broker.coordinator.consumer.members import WireMember
from tests.support.workers import eventually
from tests.user_code.misdeeds import DEEDS, HANG, RAISED, SPIN, WRONG, Misdeeds, name_of


pytestmark = pytest.mark.timeout(300)


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


def begun(client: Client, handshake: int) -> tuple[int, int]:
    """Send a token, without a header after version 0 of the handshake."""
    assert client.ask(SaslHandshakeRequest("OAUTHBEARER"), handshake).error_code == 0
    if handshake:
        return client.send(_FIRST, 2)
    client.socket.sendall(len(_FIRST.auth_bytes).to_bytes(4) + _FIRST.auth_bytes)
    return 0, 0


def authenticated(client: Client, sent: tuple[int, int]) -> bool:
    """Return whether the broker takes the token."""
    if sent == (0, 0):
        return client.frame() == b""
    answer = client.answer(_FIRST, sent)
    return answer.error_code == 0 and not answer.auth_bytes


@pytest.mark.parametrize("handshake", [0, 1])
def test_misbehaving_token_validator_stays_within_bounds(
    misdeeds: Misdeeds, monkeypatch: pytest.MonkeyPatch, handshake: int
) -> None:
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
                    sent = begun(client, handshake)
                    misdeeds.await_begun(deed)
                deeds.put(None)
                assert authenticated(other, begun(other, handshake))
                assert other.ask(MetadataRequest(()), 12).brokers
                assert not authenticated(client, sent)
