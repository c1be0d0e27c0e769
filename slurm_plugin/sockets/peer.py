"""The process at the other end of a Unix socket, as the kernel recorded it at the connection; the client cannot influence
it.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import NamedTuple

_CREDENTIALS = struct.Struct("3i")  # struct ucred of unix(7)


class Peer(NamedTuple):
    """Credentials of the process."""

    pid: int
    uid: int
    gid: int

    @classmethod
    def of(cls, connection: socket.socket) -> Peer:
        """Return the credentials of the other end."""
        return cls._make(
            _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        )

    @property
    def name(self) -> str:
        """The user, without a query of the user database, which may hang."""
        return "root" if self.uid == 0 else f"uid {self.uid}"

    @property
    def may_administer(self) -> bool:
        """Whether the user may give orders: root and the controller's own user, which control this process anyway."""
        return self.uid in (0, os.geteuid())
