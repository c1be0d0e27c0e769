"""Unix sockets in the run folder: made whole, in place of one that a killed daemon left, never of a living one's."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path

from tiresias.errors import TiresiasError

BACKLOG = 128
_EVERYONE = 0o666
_LONGEST_PATH = 107  # sun_path of unix(7) is 108 bytes with its final NUL


class SocketFile:
    """Remembers which file a socket was bound to, so that only that one is removed, never a successor's."""

    def __init__(self, path: Path) -> None:
        self._path, self._identity = path, _identity(path)

    def leave(self) -> None:
        with contextlib.suppress(OSError):
            if _identity(self._path) == self._identity:
                self._path.unlink()


def _identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


def listen(path: Path, kind: socket.SocketKind) -> socket.socket:
    """A non-blocking socket of `kind` at `path`, open to everyone, in place of one that a killed daemon left behind."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    if len(os.fsencode(temporary)) > _LONGEST_PATH:
        raise TiresiasError(f"the path {path} is too long for a Unix socket: choose a shorter paths.run")
    _refuse_if_taken(path, kind)
    server = socket.socket(socket.AF_UNIX, kind)
    try:
        temporary.unlink(missing_ok=True)
        server.bind(os.fspath(temporary))
        temporary.chmod(_EVERYONE)
        if kind == socket.SOCK_STREAM:
            server.listen(BACKLOG)
        temporary.replace(path)  # nobody ever meets it half made
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
        return  # nothing there; what else is wrong, bind will say
    if not is_socket:
        raise TiresiasError(f"{path} exists and is no socket: remove it or choose another paths.run")
    with socket.socket(socket.AF_UNIX, kind) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return  # left behind by a daemon that was killed
        except OSError:
            pass  # somebody is there, though busy or not ours to reach
    raise TiresiasError(f"another controller listens at {path}: stop it first, or choose another paths.run")
