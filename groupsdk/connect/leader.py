"""Do what only the group's leader does: write configurations, and keep each connector's tasks as it plans them."""

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from groupsdk.connect.config_records import (
    Record,
    connector_records,
    epoch_record,
    task_records,
)
from groupsdk.connect.config_state import ClusterConfigState, Config, TargetState
from groupsdk.connect.errors import ConnectorConfigError, StoreError, StoreFencedError
from groupsdk.connect.planner import Plan, Planner
from groupsdk.connect.secrets import NO_PROVIDERS, ConfigProviders, secrets_of
from groupsdk.connect.session_key import SessionKeySettings
from groupsdk.connect.standby import StandbyRecord, choose_standbys
from groupsdk.connect.status import State, Status, for_log, stack_trace, status_key
from groupsdk.connect.store import ConnectStore
from groupsdk.connect.task import CLASS_KEY, Connector, numbered
from groupsdk.connect.work import Work


logger = logging.getLogger(__name__)

_EPOCH_BITS: Final = 32
_RETRY_MS: Final = 10_000


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
        providers: where the variables of configurations come from.
    """

    def __init__(
        self,
        store: ConnectStore,
        classes: Mapping[str, type[Connector]],
        permanent: Mapping[str, Config],
        worker_id: str,
        plan_interval_ms: int,
        wake: Callable[[], None],
        providers: ConfigProviders = NO_PROVIDERS,
    ) -> None:
        self.plan_at_ms: int | None = None
        """When connectors are asked next; None: not by themselves."""
        self._store = store
        self._permanent = dict(permanent)
        self._worker_id = worker_id
        self._plan_interval_ms = plan_interval_ms
        self._classes = classes
        self._standbys_of: tuple[int, Mapping[str, Work], int] | None = None
        self._standbys_at_ms = 0
        self._planner = Planner(classes, wake, providers)
        self._claimed = False
        self._providers = providers

    def follow(self) -> None:
        """Take note that another worker leads."""
        self._claimed = False
        self.plan_at_ms = None
        self._standbys_of = None

    def lead(self, generation: int, now_ms: int, shares: Mapping[str, Work] | None = None) -> None:
        """Do what is due.

        Args:
            generation: the group's.
            now_ms: the time.
            shares: what each member has, by its id; None where there are no others.

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
        if shares is not None:
            self._keep_standbys(generation, now_ms, shares)

    def _keep_standbys(self, generation: int, now_ms: int, shares: Mapping[str, Work]) -> None:
        """Say who keeps what warm, where that has changed."""
        configs = self._store.configs()
        seen = generation, shares, configs.offset
        # while the group rebalances there is no token to say it under
        if generation < 0 or seen == self._standbys_of or now_ms < self._standbys_at_ms:
            return
        before = self._store.standbys().standbys
        there = {task: ids for task, ids in before.items() if configs.contains(task)}
        after = choose_standbys(shares, configs.replicas(), there)
        if after != before:
            record = StandbyRecord(fencing_token(configs, generation), after)
            try:
                self._store.put_standbys(record)
            except StoreError as error:
                # without it tasks start cold: no reason to hold the rest of the group's work up
                logger.warning("it cannot be said who keeps tasks warm: %s", error)
                self._standbys_at_ms = now_ms + _RETRY_MS
                return
        self._standbys_of = seen

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

    def rotate_key(self, settings: SessionKeySettings, now_ms: int) -> None:
        """Hand out the group's first or next session key, when that is due (KIP-507).

        Args:
            settings: how keys are made, and how long they last.
            now_ms: the time in milliseconds since 1970.
        """
        key = settings.next_key(self._store.configs().session_key, now_ms)
        if key is not None:
            self.write([key.record()])

    def begin_epoch(self) -> None:
        """Say that the group's generations have begun anew, so that fencing tokens go on growing."""
        self.write([epoch_record(self._store.configs().epoch + 1)])

    def close(self) -> None:
        """Ask no more."""
        self._planner.close()

    def _secrets(self, plan: Plan) -> set[str]:
        kind = self._classes.get(plan.config.get(CLASS_KEY, ""), Connector)
        found = secrets_of(plan.config, kind.secrets)
        with contextlib.suppress(ConnectorConfigError):
            resolved = self._providers.resolve(plan.config)
            found |= {*resolved.variables, *secrets_of(resolved.config, kind.secrets)}
        return found

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
        kind = plan.config.get(CLASS_KEY, "")
        if kind not in self._classes:
            # a worker in Java may know it: who owns it runs it and sends its tasks, or says that it cannot
            logger.info("connector %s is of a class unknown to this leader: %r", plan.name, kind)
            return
        trace = stack_trace(error, self._secrets(plan))
        logger.warning("connector %s cannot say what its tasks are: %s", plan.name, for_log(trace))
        token = fencing_token(configs, generation)
        status = Status(State.FAILED, self._worker_id, token, trace)
        self._store.put_status(status_key(plan.name), status)
