"""Run a worker: `python -m groupsdk.connect module:app`, the same as `groupsdk worker module:app`."""

import sys

from groupsdk.cli.main import main


if __name__ == "__main__":
    sys.exit(main(["worker", *sys.argv[1:]]))
