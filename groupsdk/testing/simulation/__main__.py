"""Run simulations for a given time: `python -m groupsdk.testing.simulation --duration 60`."""

import sys

from groupsdk.testing.simulation.runs import main


if __name__ == "__main__":
    sys.exit(main())
