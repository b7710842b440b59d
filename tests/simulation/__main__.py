"""Run simulations whose broker is watched inside as well: `python -m tests.simulation --duration 60`."""

import sys
from functools import partial

from groupsdk.testing.simulation import runs
from tests.simulation.watched_consumers import random_consumer_run
from tests.simulation.watched_tasks import random_run


main = partial(
    runs.main, command="tests.simulation", classic=random_run, consumers=random_consumer_run
)


if __name__ == "__main__":
    sys.exit(main())
