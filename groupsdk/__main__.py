"""Run the command `groupsdk` as `python -m groupsdk`."""

import sys

from groupsdk.cli.main import main


if __name__ == "__main__":
    sys.exit(main())
