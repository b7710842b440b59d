"""Explain the log of a real broker: fifty seconds with a join, a kill, a restart and a topic that grows.

    python -m examples.history_sample [DIRECTORY]

The log is the sample that the tests use: Kafka 4.1 wrote it, and what its coordinator said stands beside it.
"""

import argparse
import tempfile
from pathlib import Path


SAMPLE = Path(__file__).resolve().parents[1] / "tests" / "history" / "data"


def main(out: Path) -> int:
    """Run the history over the sample; returns the exit code."""
    from groupsdk.cli.main import main as groupsdk

    return groupsdk(
        [
            *("history", "run", "--segments", str(SAMPLE / "segments")),
            *("--broker-log", str(SAMPLE / "coordinator-log.txt.gz")),
            *("--out", str(out), "--master", "local[2]", "--title", "Fifty seconds of a broker"),
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", nargs="?", type=Path, help="default: a new one")
    place = parser.parse_args().directory or Path(tempfile.mkdtemp(prefix="history-sample-"))
    raise SystemExit(main(place))
