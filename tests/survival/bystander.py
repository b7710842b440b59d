"""A client that behaves, beside those that do not: it notices when it is not served."""

import threading
import uuid
from typing import Final, Self

from groupsdk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupsdk.wire.messages.groups import HeartbeatRequest
from tests.broker.clients import Client, batch, join, produce


_END_S: Final = 60.0


class Bystander:
    """Works on a thread of its own while the `with` statement lasts, and says at its end what it suffered.

    It has a group, whose member it keeps alive, and produces to a topic and reads what it has produced."""

    def __init__(self, address: tuple[str, int], topic: str) -> None:
        self._client = Client(address, "bystander")
        self._topic = topic
        # of its own: the member of an earlier bystander is gone without a word
        self._group_id = f"bystander-{uuid.uuid4().hex}"
        self._joined = join(self._client, self._group_id)
        self._stopped = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.rounds = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stopped.set()
        self._thread.join(_END_S)
        self._client.socket.close()
        if kind is None:
            assert self._problem is None, f"the bystander was disturbed: {self._problem!r}"
            assert not self._thread.is_alive(), "the bystander waits for an answer"
            assert self.rounds > 0

    def _run(self) -> None:
        try:
            while not self._stopped.wait(0.005):
                self._round()
            # it may have come late, and then finds what is left
            self._round()
        except BaseException as error:  # noqa: BLE001 - told on the test's thread
            self._problem = error

    def _round(self) -> None:
        joined = self._joined
        beat = HeartbeatRequest(self._group_id, joined.generation_id, joined.member_id)
        assert self._client.ask(beat, 4).error_code == 0
        value = b"%d" % self.rounds
        written = produce(self._client, self._topic, batch(value))
        assert written.error_code == 0, written
        wanted = FetchPartition(0, fetch_offset=written.base_offset, partition_max_bytes=1000)
        fetch = FetchRequest(max_wait_ms=0, topics=(FetchTopic(self._topic, partitions=(wanted,)),))
        part = self._client.ask(fetch, 11).responses[0].partitions[0]
        assert part.error_code == 0
        assert value in (part.records or b"")
        self.rounds += 1
