"""Play storms: members of six libraries share a group while they are stopped, killed and started again at random.

`python -m tests.survival.storm --storms 5` does so on a real Kafka; `--embedded` on our own broker. A storm is clean
if no committed offset went back by this library's doing and everything was read at the end; each offset that went
back is shown with who committed what, as the coordinator's log has it, and with what both members said themselves.
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from groupsdk.broker.embedded import EmbeddedBroker
from groupsdk.testing import LocalKafka
from tests.support.go import built_go
from tests.survival.storm.playing import PROPERTIES, Storm
from tests.survival.storm.verdict import Verdict, judge, offsets_log


def play(servers: str, folder: Path, member: Path, seed: int, seconds: float) -> Verdict:
    """Play one storm in a folder for the members' ledgers, and judge it."""
    folder.mkdir()
    with Storm(servers, folder, member, seed) as storm:
        storm.rage(seconds)
        storm.settle()
    return judge(offsets_log(servers), storm.group, folder)


def main() -> int:
    """Play storms, and say what came of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.survival.storm")
    parser.add_argument("--storms", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--embedded", action="store_true", help="on our own broker")
    options = parser.parse_args()
    unclean = 0
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="storm-")))
        servers = (
            stack.enter_context(EmbeddedBroker(PROPERTIES)).bootstrap_servers
            if options.embedded
            else stack.enter_context(LocalKafka(properties=PROPERTIES)).bootstrap_servers
        )
        member = built_go(Path(__file__).parent / "go" / "stormmember", scratch)
        for seed in range(options.seed, options.seed + options.storms):
            verdict = play(servers, scratch / str(seed), member, seed, options.seconds)
            unclean += not verdict.clean
            print(f"seed {seed}: {verdict}", flush=True)
    print(f"{options.storms - unclean} of {options.storms} storms clean")
    return int(unclean > 0)


if __name__ == "__main__":
    sys.exit(main())
