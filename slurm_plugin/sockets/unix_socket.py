"""Unix sockets in the run folder: created atomically, in place of one left by a killed daemon, never of a live one."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path

from tiresias.errors import TiresiasError

BACKLOG = 128
_EVERYONE = 0o666
MAX_PATH_BYTES = 107  # sun_path of unix(7) is 108 bytes with its final NUL


class SocketFile:
    """The file that a socket was bound to, so that only this file is removed, never a successor's."""

    def __init__(self, path: Path) -> None:
        self._path, self._identity = path, _identity(path)

    def remove(self) -> None:
        """Remove the file unless it belongs to another socket."""
        with contextlib.suppress(OSError):
            if _identity(self._path) == self._identity:
                self._path.unlink()


def _identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


def listen(path: Path, kind: socket.SocketKind) -> socket.socket:
    """Return a non-blocking socket of `kind` at `path`, open to all users, in place of one left by a killed daemon.

    Raises:
        TiresiasError: another daemon listens there, or the socket cannot be made.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    if len(os.fsencode(temporary)) > MAX_PATH_BYTES:
        raise TiresiasError(f"the path {path} is too long for a Unix socket: choose a shorter paths.run")
    _refuse_if_taken(path, kind)
    server = socket.socket(socket.AF_UNIX, kind)
    try:
        temporary.unlink(missing_ok=True)
        server.bind(os.fspath(temporary))
        temporary.chmod(_EVERYONE)
        if kind == socket.SOCK_STREAM:
            server.listen(BACKLOG)
        temporary.replace(path)  # clients never find an incomplete socket
    except OSError as error:
        server.close()
        raise TiresiasError(
            f"cannot make the socket {path}: {error.strerror}: check that paths.run is writable"
        ) from error
    server.setblocking(False)
    return server


def _refuse_if_taken(path: Path, kind: socket.SocketKind) -> None:
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return  # no file, or an error that bind reports
    if not is_socket:
        raise TiresiasError(f"{path} exists and is not a socket: remove it or choose another paths.run")
    with socket.socket(socket.AF_UNIX, kind) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return  # left by a killed daemon
        except OSError:
            pass  # a daemon listens, but is busy or inaccessible
    raise TiresiasError(f"another controller listens at {path}: stop it first, or choose another paths.run")


def reason_of(error: Exception) -> str:
    """Return why no program answered, in a few words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return error.strerror or str(error) if isinstance(error, OSError) else "the answer is not JSON"
