"""Encode and decode the records of the coordinators' logs, `__consumer_offsets` and `__transaction_state`.

Classes and fields have the names of Kafka's record schemas (`group-coordinator/src/main/resources/common/message`), in snake
case. Each record has a key class, whose `record_type` and `value_class` name the kind of record and its value; a record
without a value (a tombstone) deletes what the key names. These fields mean the same in every record:

- `group_id`, `group`: the group. `member_id`: the member. `instance_id`, `group_instance_id`: the id of a static member
  (KIP-345), None for a dynamic one.
- `client_id`, `client_host`: how a member's client names itself, and the address that it connected from. `rack_id`: its
  rack, None for none.
- `topic_id`, `topic_name`: a topic; `partitions`, `partition_ids`, `num_partitions`: the numbers of partitions from 0, or
  how many there are. `topic_partitions`, `assigned_partitions`: partitions by topic.
- `epoch`, `assignment_epoch`: the epoch of the group or of its target assignment. `member_epoch`, `previous_member_epoch`:
  the epoch that a member has acknowledged, and the one before. `metadata_hash`: a hash of the subscribed topics, 0 if unknown;
  a change leads to a new group epoch.
- `subscribed_topic_names`, `subscribed_topic_regex`: what a member subscribes to. `server_assignor`: the assignor that it
  asks for, None for the broker's default. `supported_protocols`: the names and metadata with which a member of the classic
  protocol joined.
- `rebalance_timeout_ms`, `session_timeout_ms`, `session_timeout`: timeouts in milliseconds.
- `timestamp`, `commit_timestamp`: milliseconds since 1970.
- `metadata`, `user_data`: a string or bytes of the consumer's or assignor's own.
- `active_tasks`, `standby_tasks`, `warmup_tasks`: the tasks of a Kafka Streams member (KIP-1071) by subtopology, with
  `..._pending_revocation` for those to give up; `subtopology_id` names a subtopology of the application.
- `producer_id`, `producer_epoch`: a transactional producer; the epoch fences older instances.
"""
