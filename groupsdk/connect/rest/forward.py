"""Send a request on to the leader."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Final

from typing_extensions import override


_TIMEOUT_S: Final = 60.0
_MAX_ANSWER: Final = 16_000_000


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: credentials are for the leader alone."""

    @override
    def redirect_request(self, *_: object) -> None:
        return None


# no proxy either: workers reach each other directly, as they do the brokers
_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects())


def forward(method: str, url: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
    """Send a request on and return the status and the body of the answer; blocks.

    What the network does wrong is an answer too: 502.
    """
    if not url.startswith(("http://", "https://")):
        return 502, b'{"error_code":502,"message":"the leader says no http address"}'
    try:
        request = urllib.request.Request(  # checked above
            url, data=body or None, headers=dict(headers), method=method
        )
        with _OPENER.open(request, timeout=_TIMEOUT_S) as answer:
            return int(answer.status), bytes(answer.read(_MAX_ANSWER))
    except urllib.error.HTTPError as error:
        with error:
            return int(error.code), bytes(error.read(_MAX_ANSWER))
    except (OSError, http.client.HTTPException, ValueError):
        # what is no HTTP, and an address of the leader that is none
        return 502, b'{"error_code":502,"message":"the leader cannot be reached"}'
