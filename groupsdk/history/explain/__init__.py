"""Follow groups through their records, generation by generation; plain Python, without Spark.

These fields mean the same in all rows and values of this package:

- `group_id`: the group. `protocol`: "classic", "consumer", "share" or "streams". `protocol_type`: the protocol type of a
  classic group, such as "consumer" or "connect".
- `generation`: the number of a classic generation, or the epoch of a group of a newer protocol. `seq`, `first_seq`, `last_seq`:
  the position of a generation in the group's timeline, from 0, which goes on if generation numbers repeat.
- `partition` and `offset`, or `src_partition` and `src_offset`: where the record is in `__consumer_offsets`.
  `leader_epoch`: the leader epoch of that partition, which rises with each new coordinator.
- `ts_ms`, `start_ms`, `end_ms`, `first_ms`, `last_ms`: times in milliseconds since 1970. Other fields that end with `_ms`
  are durations in milliseconds.
- `member_id`, `client_id`, `client_host`: a member, the name of its client, and the address it connected from.
  `instance_id`: the id of a static member, None for a dynamic one. `rack_id`: its rack, None for none.
- `topics`: the topics that a member subscribes to. `owned`, `assigned`: the partitions that it claimed on joining, and
  those that it was assigned, as pairs of a topic and partition numbers.
- `assignor`, `leader`: the chosen assignor, and the member that computed the assignment; None if the log does not show it.
- `n_members`, `n_partitions`: how many members the generation has, and how many partitions they are assigned.
- `joined`, `gone`, `changed`: how many members are new, are missing, or have other subscriptions than before.
- `moved`, `moves`: how many partitions have another owner than before. `revoked`: how many partitions members that stayed had
  to give up.
- `cause`, `primary`, `causes`: why a generation began, as values of `changes.Cause`; the primary one first.
  `confidence`: from 0 to 1, how certain it is; None if it is not an estimate. `evidence`: "log" or "broker_log".
- `reason`, `end_reason`: why a membership ended: "leave", "expiry" and others, or the text of a broker's log.
- `generations`, `rebalances`: how many there were. `downtime_ms`: the sum of the gaps between commits around them.
  `stalled_ms`: for how long partitions made no progress although they usually do, in partition-milliseconds.
- `stddev`, `balance_stddev`: the standard deviation of the number of partitions per member. `max_load`, `min_load`: the
  most and the fewest partitions of a member.
- `problem`: why something could not be decoded or computed; None for success.
- `record_type`, `key`, `value`: the type of a record, and its decoded key and value (bytes in `GroupRecord`).
"""

from typing import Final


SIZES: Final = "sizes"
"""The stage with the sizes of silences, evidence of session timeouts; see `departures.silence_size`."""
