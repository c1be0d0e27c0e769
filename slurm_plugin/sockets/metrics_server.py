"""The HTTP server of `tiresias metrics --listen`.

Clients are limited: a request ends after REQUEST_TIMEOUT_S seconds, and of more than MAX_CONNECTIONS connections the oldest
is closed. Neither incomplete nor numerous requests block the server.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

REQUEST_TIMEOUT_S = 10.0
MAX_CONNECTIONS = 16


class MetricsServer(ThreadingMixIn, WSGIServer):
    """A threading HTTP server with limits on its clients."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], app: Callable[..., Any], seconds: float = REQUEST_TIMEOUT_S) -> None:
        self._seconds = seconds
        self._open: dict[socket.socket, threading.Timer] = {}  # oldest first
        self._lock = threading.Lock()
        super().__init__(address, _Quiet)
        self.set_app(app)

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._open)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a request, with a timer that closes its connection."""
        timer = threading.Timer(self._seconds, _cut, [request])
        timer.daemon = True
        with self._lock:
            oldest = next(iter(self._open)) if len(self._open) >= MAX_CONNECTIONS else None
            if oldest is not None:
                self._open.pop(oldest).cancel()
                _cut(oldest)
            self._open[request] = timer
        timer.start()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a request and its timer."""
        with self._lock:
            timer = self._open.pop(request, None)
        if timer:
            timer.cancel()
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error: a client that disconnected or was cut off is no error."""


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Scrapes are not logged."""


def _cut(connection: socket.socket) -> None:
    """End the reads and writes of the connection's thread, which then closes it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
