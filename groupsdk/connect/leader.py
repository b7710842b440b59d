"""Do what only the group's leader does: write configurations, and keep each connector's tasks as it plans them."""

import logging
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from groupsdk.connect.config_records import (
    Record,
    connector_records,
    epoch_record,
    task_records,
)
from groupsdk.connect.config_state import ClusterConfigState, Config, TargetState
from groupsdk.connect.errors import ConnectorConfigError, StoreFencedError
from groupsdk.connect.planner import Plan, Planner
from groupsdk.connect.status import State, Status, status_key
from groupsdk.connect.store import ConnectStore
from groupsdk.connect.task import Connector, numbered


logger = logging.getLogger(__name__)

_EPOCH_BITS: Final = 32


def fencing_token(configs: ClusterConfigState, generation: int) -> int:
    """Return the token of a generation: greater than all before it, even where Kafka counts anew."""
    return configs.epoch << _EPOCH_BITS | max(0, generation)


class Leader:
    """The leader's part of a worker; belongs to the worker's thread.

    Args:
        store: where configurations are written.
        classes: connectors' classes, by the names that configurations use.
        permanent: connectors that are there always.
        worker_id: what this worker is called in statuses.
        plan_interval_ms: how often to ask connectors for their tasks; 0: only at rebalances.
        wake: called from any thread when `lead` has something to do.
    """

    def __init__(
        self,
        store: ConnectStore,
        classes: Mapping[str, type[Connector]],
        permanent: Mapping[str, Config],
        worker_id: str,
        plan_interval_ms: int,
        wake: Callable[[], None],
    ) -> None:
        self.plan_at_ms: int | None = None
        """When connectors are asked next; None: not by themselves."""
        self._store = store
        self._permanent = dict(permanent)
        self._worker_id = worker_id
        self._plan_interval_ms = plan_interval_ms
        self._planner = Planner(classes, wake)
        self._claimed = False

    def follow(self) -> None:
        """Take note that another worker leads."""
        self._claimed = False
        self.plan_at_ms = None

    def lead(self, generation: int, now_ms: int) -> None:
        """Do what is due.

        Raises:
            StoreError: configurations cannot be written.
            StoreFencedError: another worker has become the leader meanwhile.
        """
        if not self._claimed:
            self._claim()
        configs = self._store.configs()
        for name, config in self._permanent.items():
            if configs.connectors.get(name) != config:
                self.write(connector_records(name, config))
        if self.plan_at_ms is not None and now_ms >= self.plan_at_ms:
            interval_ms = self._plan_interval_ms
            self.plan_at_ms = now_ms + interval_ms if interval_ms else None
            self.plan(self._store.configs().connectors)
        for plan in self._planner.take():
            self._planned(plan, generation)

    def plan(self, names: Iterable[str]) -> None:
        """Ask connectors for their tasks; those that are not paused or stopped."""
        configs = self._store.configs()
        for name in names:
            config = configs.connectors.get(name)
            if config is not None and configs.target_state(name) is TargetState.STARTED:
                self._planner.ask(name, config)

    def write(self, records: Sequence[Record]) -> None:
        """Write configurations, as the only one who does.

        Raises:
            StoreError: that failed.
            StoreFencedError: another worker has become the leader meanwhile.
        """
        if not self._claimed:
            self._claim()
        try:
            self._store.write_configs(records)
        except StoreFencedError:
            self._claimed = False
            raise

    def begin_epoch(self) -> None:
        """Say that the group's generations have begun anew, so that fencing tokens go on growing."""
        self.write([epoch_record(self._store.configs().epoch + 1)])

    def close(self) -> None:
        """Ask no more."""
        self._planner.close()

    def _claim(self) -> None:
        self._store.claim()
        self._claimed = True

    def _planned(self, plan: Plan, generation: int) -> None:
        configs = self._store.configs()
        if configs.connectors.get(plan.name) != plan.config:
            return  # changed meanwhile, and asked again
        if configs.target_state(plan.name) is TargetState.STOPPED:
            return
        before = [configs.task_configs.get(each, {}) for each in configs.task_ids(plan.name)]
        error = plan.error
        if error is None:
            try:
                after = numbered(before, plan.tasks)
            except ConnectorConfigError as wrong:
                error = wrong
            else:
                if before != after or plan.name in configs.inconsistent:
                    self.write(task_records(plan.name, after))
                return
        logger.warning("connector %s cannot say what its tasks are: %s", plan.name, error)
        trace = "".join(traceback.format_exception(error))
        token = fencing_token(configs, generation)
        status = Status(State.FAILED, self._worker_id, token, trace)
        self._store.put_status(status_key(plan.name), status)
