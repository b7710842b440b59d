"""Run a worker: `python -m groupsdk.connect module:app`."""

import sys

from groupsdk.connect.command import main


if __name__ == "__main__":
    sys.exit(main())
