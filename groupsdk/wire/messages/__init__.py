"""The messages of Kafka's protocol, one module for each family of APIs.

Classes and fields have the names of Kafka's message schemas (`clients/src/main/resources/common/message`), in snake
case; `IncrementalAlterableConfig`, `IncrementalAlterConfigsResource` and `TransactionListing` have other names than there,
where two APIs of a family share one. A field that the version on the wire does not have keeps its default. These
fields mean the same in every message:

- `error_code`: 0 for success, or a code of `groupsdk.error_code.ErrorCode`. `error_message`: details, None for none.
- `throttle_time_ms`: for how many milliseconds the client should send nothing, because of a quota (KIP-219); 0 for none.
- `timeout_ms`: how long the broker may wait before it responds, in milliseconds.
- `partition_index`, `partition_indexes`: partition numbers from 0. `topic_id`: the topic's UUID (KIP-516), which
  replaces its name in newer versions; `NO_UUID` for none.
- `node_id`, `leader_id`, `controller_id`, `replica_id`, `broker_id`: ids of brokers, -1 for none or unknown.
  `replica_nodes`, `isr_nodes`, `offline_replicas`: the brokers with a replica, those in sync, and those that are down.
- `leader_epoch`, `current_leader_epoch`, `committed_leader_epoch`, `last_fetched_epoch`: how often the partition's leader
  has changed (KIP-101, KIP-320), -1 if unknown. A request with another epoch than the broker's is fenced.
- `committed_offset`: the offset of the next record to read, -1 for none. `metadata`, `committed_metadata`: a string of the
  consumer's own that is stored with it.
- `log_start_offset`, `high_watermark`, `last_stable_offset`: the first offset, the end of the replicated log, and the end
  of the log without open transactions; `end_offset` and `log_end_offset`: one after the last record. -1 if unknown.
- `group_id`, `member_id`: the group, and the id that the coordinator assigned or (KIP-848) the member chose; "" before
  that. `group_instance_id`, `instance_id`: the id of a static member (KIP-345), None for a dynamic one.
- `generation_id`: the generation of a classic group, -1 without one. `member_epoch`: the epoch of a member of a consumer
  group; 0 to join, -1 to leave, -2 for a static member that leaves temporarily. `generation_id_or_member_epoch`: either.
- `protocol_type`, `protocol_name`: the kind of group, such as "consumer" or "connect", and the assignor or version that
  its members share.
- `session_timeout_ms`: how long a member may go without a heartbeat. `rebalance_timeout_ms`: how long it may take to
  rejoin, or to revoke partitions. `heartbeat_interval_ms`: how often it should send heartbeats. All in milliseconds.
- `client_id`, `client_host`: how a member's client names itself, and the address that it connected from.
  `rack_id`, `rack`: the rack of a member or broker, None for none.
- `transactional_id`, `producer_id`, `producer_epoch`: a transactional producer, its id and the epoch that fences older
  instances; -1 for none. `coordinator_epoch`: the epoch of the transaction coordinator. `transaction_timeout_ms`: after
  how many milliseconds an open transaction is aborted.
- `authorized_operations` and fields ending with it: a bit field, bit N for the ACL operation N that the client may perform
  (KIP-430), -2147483648 if not requested. `include_...authorized_operations` requests it.
- `resource_type`, `resource_type_filter`: in ACLs 0 unknown, 1 any, 2 topic, 3 group, 4 cluster, 5 transactional id,
  6 delegation token, 7 user (Java's `ResourceType`); in configurations 2 topic, 4 broker, 8 broker logger, 16 client
  metrics, 32 group (Java's `ConfigResource.Type`).
- `pattern_type`, `resource_pattern_type`, `pattern_type_filter`: 1 any, 2 match, 3 literal, 4 prefixed (KIP-290).
  `operation`: Java's `AclOperation`, such as 3 read and 4 write. `permission_type`: 1 any, 2 deny, 3 allow.
  `principal`: such as "User:name". `host`: in an ACL, an IP address or "*".
"""
