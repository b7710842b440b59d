"""Name every error code that a Kafka broker can answer with."""

from enum import IntEnum
from typing import Self


class ErrorCode(IntEnum):
    """List the error codes of Kafka 4.4 (`org.apache.kafka.common.protocol.Errors`).

    Each member is its number on the wire. `retriable` is whether Kafka's client takes the error for
    a passing one (its exception is a `RetriableException`); note that UNKNOWN_MEMBER_ID,
    ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS and MEMBER_ID_REQUIRED are not among these, although a
    member answers them by joining again.
    """

    retriable: bool
    text: str

    def __new__(cls, code: int, retriable: bool, text: str) -> Self:
        """Create a member from its number, whether a retry may help, and a short text."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.text = text
        return member

    @classmethod
    def of(cls, code: int) -> "ErrorCode":
        """Return the member with a number; UNKNOWN_SERVER_ERROR if the number is not known here.

        Args:
            code: the number on the wire. A newer broker may send numbers that are not listed: keep the number, and use
                `describe` for messages.
        """
        return _BY_CODE.get(code, cls.UNKNOWN_SERVER_ERROR)

    UNKNOWN_SERVER_ERROR = (
        -1,
        False,
        "the broker failed in a way that it does not explain; its log may tell more",
    )
    NONE = 0, False, "no error"
    OFFSET_OUT_OF_RANGE = 1, False, "no record exists at this offset"
    CORRUPT_MESSAGE = 2, True, "a record failed its checksum or is otherwise damaged"
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "the broker does not host this topic or partition"
    INVALID_FETCH_SIZE = 4, False, "the fetch size is not valid"
    LEADER_NOT_AVAILABLE = 5, True, "the partition has no leader at the moment"
    NOT_LEADER_OR_FOLLOWER = (
        6,
        True,
        "the broker is not the leader, or no replica, of the partition",
    )
    REQUEST_TIMED_OUT = 7, True, "the broker ran out of time for the request"
    BROKER_NOT_AVAILABLE = 8, False, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, True, "the replica is not available on this broker"
    MESSAGE_TOO_LARGE = 10, False, "a record is larger than the broker accepts"
    STALE_CONTROLLER_EPOCH = 11, False, "the controller has moved on to another epoch"
    OFFSET_METADATA_TOO_LARGE = (
        12,
        False,
        "the metadata of a committed offset is longer than the broker accepts",
    )
    NETWORK_EXCEPTION = 13, True, "the broker lost a connection before it had the answer"
    COORDINATOR_LOAD_IN_PROGRESS = (
        14,
        True,
        "the coordinator is still loading the state of the group",
    )
    COORDINATOR_NOT_AVAILABLE = 15, True, "there is no coordinator at the moment"
    NOT_COORDINATOR = 16, True, "this broker is not the coordinator of the group (any more)"
    INVALID_TOPIC_EXCEPTION = (
        17,
        False,
        "the topic's name is not valid, or the topic may not be used this way",
    )
    RECORD_LIST_TOO_LARGE = 18, False, "the batch is larger than a log segment"
    NOT_ENOUGH_REPLICAS = 19, True, "too few replicas are in sync to accept the write"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        True,
        "the write was accepted, but too few replicas have it",
    )
    INVALID_REQUIRED_ACKS = 21, False, "acks has a value that Kafka does not know"
    ILLEGAL_GENERATION = 22, False, "the request names another generation than the group is in"
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        False,
        "the group's members use another protocol type or share no protocol with this one",
    )
    INVALID_GROUP_ID = 24, False, "the group id is not valid"
    UNKNOWN_MEMBER_ID = 25, False, "the group does not know this member id"
    INVALID_SESSION_TIMEOUT = (
        26,
        False,
        "session.timeout.ms is outside group.min.session.timeout.ms and group.max.session.timeout.ms of the broker",
    )
    REBALANCE_IN_PROGRESS = 27, False, "the group is rebalancing; the member has to join again"
    INVALID_COMMIT_OFFSET_SIZE = (
        28,
        False,
        "the offsets to commit are larger than the broker accepts",
    )
    TOPIC_AUTHORIZATION_FAILED = 29, False, "the principal may not use the topic"
    GROUP_AUTHORIZATION_FAILED = 30, False, "the principal may not use the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "the principal may not do this to the cluster"
    INVALID_TIMESTAMP = 32, False, "the timestamp of a record is outside the accepted range"
    UNSUPPORTED_SASL_MECHANISM = 33, False, "the broker does not offer this SASL mechanism"
    ILLEGAL_SASL_STATE = 34, False, "the request does not fit the state of the SASL exchange"
    UNSUPPORTED_VERSION = 35, False, "the broker does not support this version of the request"
    TOPIC_ALREADY_EXISTS = 36, False, "a topic of this name exists already"
    INVALID_PARTITIONS = 37, False, "the number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = (
        38,
        False,
        "the replication factor is below one or above the number of brokers",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, False, "the assignment of replicas is not valid"
    INVALID_CONFIG = 40, False, "a configuration value is not valid"
    NOT_CONTROLLER = 41, True, "this broker is not the controller"
    INVALID_REQUEST = 42, False, "the broker takes the request for malformed; its log may tell more"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (
        43,
        False,
        "the broker's message format cannot carry this request",
    )
    POLICY_VIOLATION = 44, False, "a policy of the broker forbids the request"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, False, "the producer's sequence number is out of order"
    DUPLICATE_SEQUENCE_NUMBER = 46, False, "the producer sent this sequence number before"
    INVALID_PRODUCER_EPOCH = 47, False, "the producer's epoch is old"
    INVALID_TXN_STATE = 48, False, "the transaction is not in a state that allows this"
    INVALID_PRODUCER_ID_MAPPING = (
        49,
        False,
        "the producer id does not belong to this transactional id",
    )
    INVALID_TRANSACTION_TIMEOUT = (
        50,
        False,
        "the transaction timeout is above transaction.max.timeout.ms of the broker",
    )
    CONCURRENT_TRANSACTIONS = 51, True, "another operation on the same transaction is under way"
    TRANSACTION_COORDINATOR_FENCED = (
        52,
        False,
        "the transaction coordinator has been replaced by a newer one",
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (
        53,
        False,
        "the principal may not use the transactional id",
    )
    SECURITY_DISABLED = 54, False, "the broker has no security configured"
    OPERATION_NOT_ATTEMPTED = (
        55,
        False,
        "the broker did not get to this operation, as another one of the request failed",
    )
    KAFKA_STORAGE_ERROR = 56, True, "a disk of the broker failed"
    LOG_DIR_NOT_FOUND = 57, False, "the broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, False, "the broker refused the credentials"
    UNKNOWN_PRODUCER_ID = 59, False, "the broker has no state for this producer id"
    REASSIGNMENT_IN_PROGRESS = 60, False, "the partition is being reassigned"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "delegation tokens are switched off on the broker"
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "the broker does not know this delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, False, "the delegation token belongs to somebody else"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        False,
        "delegation tokens may not be asked for over this kind of connection",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (
        65,
        False,
        "the principal may not use the delegation token",
    )
    DELEGATION_TOKEN_EXPIRED = 66, False, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, False, "the principal type is not supported"
    NON_EMPTY_GROUP = 68, False, "the group still has members"
    GROUP_ID_NOT_FOUND = 69, False, "the group does not exist"
    FETCH_SESSION_ID_NOT_FOUND = 70, True, "the broker does not know this fetch session"
    INVALID_FETCH_SESSION_EPOCH = 71, True, "the epoch of the fetch session is not valid"
    LISTENER_NOT_FOUND = (
        72,
        True,
        "the partition's leader has no listener of the name that the client uses",
    )
    TOPIC_DELETION_DISABLED = 73, False, "topics may not be deleted on this broker"
    FENCED_LEADER_EPOCH = 74, True, "the request's leader epoch is older than the broker's"
    UNKNOWN_LEADER_EPOCH = 75, True, "the request's leader epoch is newer than the broker's"
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        False,
        "the client does not support the compression of the records",
    )
    STALE_BROKER_EPOCH = 77, False, "the broker has registered again under a newer epoch"
    OFFSET_NOT_AVAILABLE = 78, True, "the new leader does not know the end of the log yet"
    MEMBER_ID_REQUIRED = (
        79,
        False,
        "the member has to join again with the member id that it was just given",
    )
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "the preferred leader is not available"
    GROUP_MAX_SIZE_REACHED = 81, False, "the group is full (group.max.size of the broker)"
    FENCED_INSTANCE_ID = 82, False, "another member has taken over this group.instance.id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "no replica is eligible to become the leader"
    ELECTION_NOT_NEEDED = 84, True, "the partition needs no election"
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "the partition is not being reassigned"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, False, "the group still subscribes to the topic"
    INVALID_RECORD = 87, False, "the broker found a record not valid"
    UNSTABLE_OFFSET_COMMIT = (
        88,
        True,
        "a transaction that is still open holds offsets of the partition",
    )
    THROTTLING_QUOTA_EXCEEDED = 89, True, "a quota of the broker is used up"
    PRODUCER_FENCED = 90, False, "a newer producer with the same transactional id is at work"
    RESOURCE_NOT_FOUND = 91, False, "the resource does not exist"
    DUPLICATE_RESOURCE = 92, False, "the request names a resource twice"
    UNACCEPTABLE_CREDENTIAL = 93, False, "the credential does not meet the broker's rules"
    INCONSISTENT_VOTER_SET = 94, False, "a voter of the request is not in the voter set"
    INVALID_UPDATE_VERSION = 95, False, "the version to update to is not valid"
    FEATURE_UPDATE_FAILED = 96, False, "the broker could not update its features"
    PRINCIPAL_DESERIALIZATION_FAILURE = (
        97,
        False,
        "a broker could not read the principal of a forwarded request",
    )
    SNAPSHOT_NOT_FOUND = 98, False, "the snapshot does not exist"
    POSITION_OUT_OF_RANGE = 99, False, "the position is outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, True, "the broker does not host a topic of this id"
    DUPLICATE_BROKER_REGISTRATION = 101, False, "another broker uses this broker id"
    BROKER_ID_NOT_REGISTERED = 102, False, "no broker is registered under this id"
    INCONSISTENT_TOPIC_ID = 103, True, "the topic id is not the one that the broker's log has"
    INCONSISTENT_CLUSTER_ID = 104, False, "the request is meant for another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "the transactional id does not exist"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, True, "the topic ids of the fetch session changed"
    INELIGIBLE_REPLICA = 107, False, "a replica may not be part of the in-sync set"
    NEW_LEADER_ELECTED = 108, False, "the partition has another leader by now"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, "the offset is in tiered storage"
    FENCED_MEMBER_EPOCH = (
        110,
        False,
        "the coordinator has moved the member on; it has to give up its work and join again",
    )
    UNRELEASED_INSTANCE_ID = 111, False, "another member still holds this group.instance.id"
    UNSUPPORTED_ASSIGNOR = 112, False, "the group does not support the assignor"
    STALE_MEMBER_EPOCH = (
        113,
        False,
        "the member's epoch is old; it has to wait for the next heartbeat answer",
    )
    MISMATCHED_ENDPOINT_TYPE = 114, False, "the request went to the wrong kind of endpoint"
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "this kind of endpoint is not supported yet"
    UNKNOWN_CONTROLLER_ID = 116, False, "the controller id is not known"
    UNKNOWN_SUBSCRIPTION_ID = 117, False, "the telemetry subscription is old or not valid"
    TELEMETRY_TOO_LARGE = 118, False, "the telemetry is larger than the broker accepts"
    INVALID_REGISTRATION = (
        119,
        False,
        "the controller does not accept the registration of the broker",
    )
    TRANSACTION_ABORTABLE = (
        120,
        False,
        "the transaction failed; the producer may abort it and go on",
    )
    INVALID_RECORD_STATE = 121, False, "the record cannot be acknowledged in its present state"
    SHARE_SESSION_NOT_FOUND = 122, True, "the broker does not know this share session"
    INVALID_SHARE_SESSION_EPOCH = 123, True, "the epoch of the share session is not valid"
    FENCED_STATE_EPOCH = 124, False, "the coordinator has state of another epoch"
    INVALID_VOTER_KEY = 125, False, "the key of the voter is not that of the replica"
    DUPLICATE_VOTER = 126, False, "the voter is in the voter set already"
    VOTER_NOT_FOUND = 127, False, "the voter is not in the voter set"
    INVALID_REGULAR_EXPRESSION = 128, False, "the regular expression is not valid"
    REBOOTSTRAP_REQUIRED = (
        129,
        False,
        "the client's metadata is too old; it has to start from the bootstrap servers again",
    )
    STREAMS_INVALID_TOPOLOGY = 130, False, "the Streams topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "the epoch of the Streams topology is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, False, "the group uses a newer Streams topology"
    SHARE_SESSION_LIMIT_REACHED = 133, True, "the broker has no room for another share session"
    GROUP_DELETION_FAILED = (
        134,
        False,
        "the group could not be deleted; see the message in the response",
    )
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = (
        135,
        False,
        "the broker could not use the description of the Streams topology; see the message in the response",
    )
    CONTROLLER_ID_NOT_REGISTERED = 136, False, "no controller is registered under this id"


_BY_CODE: dict[int, ErrorCode] = {member.value: member for member in ErrorCode}


def describe(code: int) -> str:
    """Describe an error code for a message: its name, number and meaning.

    Args:
        code: the code; an unknown one gives ``"unknown error code 999"``.
    """
    known = _BY_CODE.get(code)
    if known is None:
        return f"unknown error code {int(code)}"
    return f"{known.name} ({known.value}): {known.text}"
