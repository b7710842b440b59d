"""Run the demo: `make demo`, or `python -m examples.demo`; see `--help`."""

import argparse
import os
import signal
import sys
import uuid
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import TimeoutExpired

from confluent_kafka import KafkaException

from examples.demo.board import Board
from examples.demo.crew import Crew
from examples.demo.ledger import ShardLedger, Verdict, judge
from examples.demo.screen import Screen
from examples.demo.story import DemoError, Story
from examples.demo.texts import count_words, standard_library
from examples.demo.topic import Admin, ResultsReader
from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.errors import GroupSdkError


_WORKERS = 3
_OWN_SESSION_MS = 3_000
_CLUSTER_SESSION_MS = 6_000  # group.min.session.timeout.ms of a cluster that nobody has configured


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line and the environment variable BOOTSTRAP."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.demo",
        description="Workers count the words of Python's standard library while one is killed, one is"
        " added and one turns into a zombie. Ends with status 0 if every word was counted exactly once.",
    )
    parser.add_argument(
        "--bootstrap-servers",
        metavar="HOST:PORT",
        default=os.environ.get("BOOTSTRAP") or None,
        help="your cluster; default: $BOOTSTRAP, or groupsdk's embedded broker",
    )
    parser.add_argument("--files", type=int, default=600, help="how many texts (default: 600)")
    parser.add_argument("--shards", type=int, default=24, help="in how many shards (default: 24)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=16,
        help="how long the counting is made to take (default: 16)",
    )
    parser.add_argument(
        "--session-timeout-ms", type=int, help="default: 3000, on your cluster 6000"
    )
    options = parser.parse_args(arguments)
    if options.session_timeout_ms is None:
        own = options.bootstrap_servers is None
        options.session_timeout_ms = _OWN_SESSION_MS if own else _CLUSTER_SESSION_MS
    if options.files < options.shards or options.shards < _WORKERS + 1:
        parser.error(f"at least {_WORKERS + 1} shards, and a text for each")
    return options


@contextmanager
def broker(options: argparse.Namespace, screen: Screen) -> Generator[str, None, None]:
    """Give the address of the user's cluster, or of an embedded broker started here."""
    if options.bootstrap_servers is not None:
        screen.say(f"using the cluster at {options.bootstrap_servers}")
        yield options.bootstrap_servers
        return
    with EmbeddedBroker() as embedded:
        screen.say(f"groupsdk's embedded broker answers at {embedded.bootstrap_servers}")
        yield embedded.bootstrap_servers


@contextmanager
def results_topic(
    servers: str, topic: str, options: argparse.Namespace
) -> Generator[None, None, None]:
    """Create the topic of the results, and take away afterwards what was made on the user's cluster."""
    admin = Admin(servers)
    admin.create_topic(topic, options.shards)
    try:
        yield
    finally:
        if options.bootstrap_servers is not None:
            admin.remove(topic, group_id=topic)


def read_verdict(servers: str, topic: str, truth: Sequence[Counter[str]], shards: int) -> Verdict:
    """Read the whole log as anybody could, and compare it with the truth."""
    reader = ResultsReader(servers, topic)
    try:
        ledgers = [ShardLedger(shard) for shard in range(shards)]
        reader.read(ledgers, reader.ends(range(shards)))
    finally:
        reader.close()
    return judge(ledgers, truth)


def run(options: argparse.Namespace, screen: Screen) -> int:
    """Play the story on a broker, and return the exit status."""
    topic = f"groupsdk-demo-{uuid.uuid4().hex[:8]}"
    with ExitStack() as stack:
        servers = stack.enter_context(broker(options, screen))
        files: list[Path] = standard_library(options.files)
        truth = [count_words(path) for path in files]
        words = sum(counts.total() for counts in truth)
        screen.say(
            f"{len(files)} texts of {words:,} words, in {options.shards} shards; topic {topic}"
        )
        stack.enter_context(results_topic(servers, topic, options))
        pace_ms = int(options.seconds * 1000 * _WORKERS / len(files))
        settings = {
            "--bootstrap-servers": servers,
            "--group-id": topic,
            "--topic": topic,
            "--files": options.files,
            "--shards": options.shards,
            "--pace-ms": pace_ms,
            "--session-timeout-ms": options.session_timeout_ms,
        }
        board = Board(options.shards, len(files))
        command_line = [str(part) for pair in settings.items() for part in pair]
        with Crew(command_line) as crew:
            Story(crew, board, screen).play()
        verdict = read_verdict(servers, topic, truth, options.shards)
        return conclude(verdict, board.refused, screen)


def conclude(verdict: Verdict, refused: int, screen: Screen) -> int:
    """Print the totals and return the exit status."""
    if verdict.wrong_words:
        screen.say(f"counted wrongly: {', '.join(verdict.wrong_words[:10])}")
    if verdict.saved:
        screen.say(f"without fences {verdict.saved} of the texts would have counted twice")
    screen.say(
        f"words counted {verdict.counted}, expected {verdict.expected}, lost {verdict.lost},"
        f" counted twice {verdict.twice}, writes of a fenced worker refused {refused},"
        f" ignored {verdict.ignored}",
        strong=True,
    )
    if not verdict.right:
        screen.say("WRONG: the counts are not the truth", strong=True)
        return 1
    if not verdict.ignored:
        screen.say("NOT SHOWN: no paused worker wrote late; --seconds gives it longer", strong=True)
        return 1
    screen.say("right: every word of every text was counted exactly once", strong=True)
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run the demo; whatever happens, no process of it stays."""
    options = options_of(arguments)
    screen = Screen()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(options, screen)
    except KeyboardInterrupt:
        screen.say("interrupted; everything is cleaned up")
        return 130
    except (DemoError, KafkaException, GroupSdkError, TimeoutExpired, TimeoutError) as error:
        screen.say(f"failed: {type(error).__name__}: {error}", strong=True)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
