"""Run the history: `python -m groupsdk.history`, the same as `groupsdk history`."""

import sys

from groupsdk.cli.main import main


if __name__ == "__main__":
    sys.exit(main(["history", *sys.argv[1:]]))
