"""Use the embedded broker through franz-go's kgo, where Go is at hand to build it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from tests.support.go import built_go
from tests.support.processes import LineProgram


SOURCE = Path(__file__).parent / "go" / "scenarios"
SCENARIOS = (
    "range",
    "roundrobin",
    "sticky",
    "cooperative-sticky",
    "static",
    "compression",
    "transactions",
    "fencing",
    "consumer-protocol",
    "consumer-pattern",
    "consumer-static",
    "consumer-commits",
    "consumer-listeners",
    "consumer-pause",
    "consumer-transactions",
)
pytestmark = [pytest.mark.go, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_go(SOURCE, tmp_path_factory.mktemp("go"))


@pytest.fixture(scope="module")
def ask(program: Path, broker: EmbeddedBroker) -> Iterator[Callable[[str], str]]:
    """Sends a line to the running program and returns the line that it answers."""
    # the program bounds every scenario, and pytest the test
    with LineProgram([str(program), broker.bootstrap_servers]) as running:
        yield running.ask


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_franz_go_scenario_passes(
    ask: Callable[[str], str], topic: str, group_id: str, scenario: str
) -> None:
    assert ask(f"{scenario} {topic} {group_id}") == "ok"
