"""Who is at the other end of a Unix socket, as the kernel noted it when they connected: nothing of it is the client's word."""

from __future__ import annotations

import os
import socket
import struct
from typing import NamedTuple

_CREDENTIALS = struct.Struct("3i")  # struct ucred of unix(7)


class Peer(NamedTuple):
    pid: int
    uid: int
    gid: int

    @classmethod
    def of(cls, connection: socket.socket) -> Peer:
        return cls._make(
            _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        )

    @property
    def name(self) -> str:
        """Without a look into the user database, which may hang."""
        return "root" if self.uid == 0 else f"uid {self.uid}"

    @property
    def may_order(self) -> bool:
        """root and our own user could do to this process whatever they like anyway."""
        return self.uid in (0, os.geteuid())
