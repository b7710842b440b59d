"""Simulate groups under faults: real members and brokers on a virtual clock, network and disk.

Arguments and fields that mean the same in all modules:

- `now_ms`, `start_ms`, `at_ms`, `heard_ms`, fields that end with `since_ms`: virtual times in milliseconds.
  `duration_ms`, `outage_ms`, `delay_ms`, `timeout_ms`, `by_ms`, `at_most_ms`, `tick_ms`: durations in milliseconds.
- `world`: the environment of a run. `member`: a simulated process; `member_id`: its id in the group. `temper`: how its caller
  behaves. `settings`: keyword arguments of its configuration. `config`: that configuration.
- `group_id`, `group`, `instance_id`, `producer_id`, `transactional_id`, `topic_id`, `node_id`: as in Kafka.
  `name`: a topic's or a member's name. `count`: a number of partitions.
- `place`, `places`: partitions. `topics`: topics that a consumer subscribes to. `reads`: its subscription and protocol.
- `shard`: the coordinator of a partition as observed by the checks. `before`: a snapshot of the state before the event.
- `request`, `response`, `answer`: messages that a client sent and the coordinator answered.
- `invariant`: the number of the checked invariant, which the docstrings of the checks name; `what`: how it was violated.
  `text`: a line of the trace. `why`: the reason of an event, for the trace.
- `committed`: whether a transaction was committed or aborted. `producer`, `stamp`: who wrote an offset, and in what order.
- `epoch`, `generation`, `members`, `protocol`, `position`: the group as recorded in the log, and the offset of the record.
- `seed`, `harsh`: the random seed of a run, and whether requests may be read late.
- `start`, `log_end`, `durable_end`: offsets in the group's log; what lies behind `durable_end` may be lost in a crash.
- `raises`, `slow`: probabilities from 0 to 1.
"""

from groupsdk.testing.simulation.classic_run import random_run
from groupsdk.testing.simulation.world import InvariantError, Simulation


__all__ = ["InvariantError", "Simulation", "random_run"]
