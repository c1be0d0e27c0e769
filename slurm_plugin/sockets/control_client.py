"""The client's side of control.sock: one request, one answer."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tiresias.errors import TiresiasError, Unavailable
from tiresias.slurm_plugin.sockets.unix_socket import reason_of

CHUNK_BYTES = 256 * 1024


def ask(path: Path, request: Mapping[str, Any], timeout: float = 5.0) -> dict[str, Any]:
    """Send a request to the daemon and return its answer.

    Args:
        path: the control socket
        request: as JSON
        timeout: seconds in all

    Raises:
        Unavailable: no daemon answers.
        TiresiasError: the daemon answers with this error.
    """
    try:
        answer = json.loads(_exchange(path, json.dumps(request).encode() + b"\n", timeout))
    except (OSError, ValueError) as error:
        raise Unavailable(f"no controller answers at {path}: is it running? ({reason_of(error)})") from error
    if isinstance(answer, dict) and isinstance(answer.get("error"), str):
        raise TiresiasError(answer["error"])
    if not isinstance(answer, dict):
        raise Unavailable(f"the program that answers at {path} is not a Tiresias controller")
    return answer


def _exchange(path: Path, line: bytes, timeout: float) -> bytes:
    deadline = time.monotonic() + timeout
    received = bytearray()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        _connect(connection, path, deadline)
        connection.sendall(line)
        while data := connection.recv(CHUNK_BYTES):
            received += data
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
    if not received.endswith(b"\n"):
        raise ConnectionError(
            "the connection was closed within the answer" if received else "the connection was closed without an answer"
        )
    return bytes(received)


def _connect(connection: socket.socket, path: Path, deadline: float) -> None:
    while True:
        try:
            return connection.connect(os.fspath(path))
        except BlockingIOError:  # the queue of connections is full
            if time.monotonic() > deadline:
                raise TimeoutError from None
            time.sleep(0.01)
