"""Holds that a hundred workers run in one process, on the embedded broker, and share work out."""

import pytest

from groupsdk.broker.embedded import EmbeddedBroker
from tests.connect.crowd import Crowd


@pytest.mark.timeout(300)
def test_a_hundred_workers_share_work_out_in_one_process() -> None:
    with EmbeddedBroker() as broker:
        crowd = Crowd(broker.bootstrap_servers, 100, 250)
        try:
            crowd.start()
            assert set(crowd.shares()) == {2, 3}
            # they all read the same, once
            assert len({id(worker._store.configs()) for worker in crowd.workers}) == 1
        finally:
            crowd.stop()
