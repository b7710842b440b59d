"""The ListTransactions API: list transactions (KIP-664)."""

from typing import Annotated, ClassVar

from groupsdk.lazy_dataclasses import dataclass
from groupsdk.wire.schema import (
    Api,
    ApiKey,
    Int16,
    Int32,
    Int64,
    Request,
    Response,
    Struct,
    nullable,
    since,
)


API = Api(ApiKey.LIST_TRANSACTIONS, 0, 2, first_flexible=0)


@dataclass(frozen=True, slots=True)
class TransactionState(Struct):
    """One transactional id, with its producer and state."""

    transactional_id: str = ""
    producer_id: Int64 = 0
    transaction_state: str = ""


@dataclass(frozen=True, slots=True)
class ListTransactionsResponse(Response):
    """The transactions, and the filter's states that the broker does not know."""

    api: ClassVar[Api] = API

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: tuple[str, ...] = ()
    transaction_states: tuple[TransactionState, ...] = ()


@dataclass(frozen=True, slots=True)
class ListTransactionsRequest(Request[ListTransactionsResponse]):
    """List transactions; an empty filter matches all.

    `duration_filter` is in ms: only those that are open for longer, -1 for all (KIP-994). The pattern is a
    regular expression (KIP-1152).
    """

    api: ClassVar[Api] = API
    response_class: ClassVar[type[Response]] = ListTransactionsResponse

    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[Int64, ...] = ()
    duration_filter: Annotated[Int64, since(1)] = -1
    transactional_id_pattern: Annotated[str | None, since(2), nullable(2)] = None
