"""Say what a place to run the engine in offers, and open one."""

from typing import Protocol

from groupsdk.clock import Clock
from groupsdk.config import MemberConfig
from groupsdk.drivers.mailbox import Mailbox
from groupsdk.membership.events import CallerEvent


class Host(Protocol):
    """Runs one member's engine where user code cannot starve it, and publishes to a `Mailbox`.

    All methods may be called from any thread.
    """

    def start(self) -> None:
        """Start the engine; once."""
        ...

    def post(self, event: CallerEvent) -> None:
        """Hand the engine an event; events arrive in the order of the calls. No-op once it has ended."""
        ...

    def metrics(self, timeout_ms: int) -> dict[str, float]:
        """Return Kafka's coordinator metrics; the last known ones once the engine has ended.

        Raises:
            EngineError: the engine did not answer in time.
        """
        ...

    def stop(self, timeout_ms: int) -> None:
        """Wait for the engine to end, and end it by force after the timeout."""
        ...


def open_host(config: MemberConfig, clock: Clock, mailbox: Mailbox) -> Host:
    """Return the host that the configuration asks for, not started yet."""
    # Here and not above: the engine needs asyncio and tenacity, whose import takes longer than that of
    # all the rest, and not everyone who imports groupsdk starts a member.
    if config.heartbeat == "process":
        from groupsdk.drivers.hosts.process import ProcessHost

        return ProcessHost(config, mailbox)
    from groupsdk.drivers.hosts.thread import ThreadHost

    return ThreadHost(config, clock, mailbox)
