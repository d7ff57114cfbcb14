"""What the HTTP library may write to the host's log.

Invariant: nothing that a client sends, or leaves unsaid, is written there, so a sandbox can neither fill the log nor
make its own doing look like a fault of the host; what this side does wrong is.
"""

import logging
from typing import override

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

_CLIENTS_OWN = (HttpProcessingError, web.RequestPayloadError, ConnectionError)
"""What the library raises of a message that is no HTTP, of a body cut short, and of a client that is gone."""


class _NotTheClients(logging.Filter):
    @override
    def filter(self, record: logging.LogRecord) -> bool:
        return record.exc_info is None or not isinstance(record.exc_info[1], _CLIENTS_OWN)


HTTP_LOG = logging.getLogger("lego_rl.gateway.http")
"""For the library's server."""
HTTP_LOG.addFilter(_NotTheClients())
