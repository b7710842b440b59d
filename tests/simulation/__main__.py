"""Run simulations whose broker is watched inside as well: `python -m tests.simulation --duration 60`."""

import sys
from functools import partial

from groupsdk.testing.simulation import runs
from tests.simulation.consumer_sharing import random_consumer_run
from tests.simulation.task_sharing import random_run


main = partial(
    runs.main, command="tests.simulation", classic=random_run, consumers=random_consumer_run
)


if __name__ == "__main__":
    sys.exit(main())
