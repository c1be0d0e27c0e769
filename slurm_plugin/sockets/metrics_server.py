"""The HTTP server of `tiresias metrics --listen`. Clients are limited: a request has REQUEST_S seconds until the end of its answer,
and of more than MOST_CONNECTIONS connections the oldest is closed. So neither half a request nor many of them last.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

REQUEST_S = 10.0
MOST_CONNECTIONS = 16


class MetricsServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], app: Callable[..., Any], seconds: float = REQUEST_S) -> None:
        self._seconds = seconds
        self._open: dict[socket.socket, threading.Timer] = {}  # the oldest first
        self._lock = threading.Lock()
        super().__init__(address, _Quiet)
        self.set_app(app)

    @property
    def connections(self) -> int:
        return len(self._open)

    def process_request(self, request: Any, client_address: Any) -> None:
        timer = threading.Timer(self._seconds, _cut, [request])
        timer.daemon = True
        with self._lock:
            oldest = next(iter(self._open)) if len(self._open) >= MOST_CONNECTIONS else None
            if oldest is not None:
                self._open.pop(oldest).cancel()
                _cut(oldest)
            self._open[request] = timer
        timer.start()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            timer = self._open.pop(request, None)
        if timer:
            timer.cancel()
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, or was cut off, is no error."""


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Scrapes are not logged."""


def _cut(connection: socket.socket) -> None:
    """Ends what its thread reads or writes; the thread closes it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
