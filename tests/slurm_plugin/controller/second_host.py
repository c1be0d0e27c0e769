"""Runs a program of the cluster as on a second host: under another name, and with folders of its own where hosts have their own.

    python3 second_host.py NAME FOLDER COMMAND...

/run/slurm, /run/tiresias and /var/log/slurm are FOLDER's run, tiresias and log there. Everything else is the same: the network,
the processes, the shared file system.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys

MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
PLACES = {"run": "/run/slurm", "tiresias": "/run/tiresias", "log": "/var/log/slurm"}


def mount(source: str, place: str, flags: int) -> None:
    if ctypes.CDLL(None, use_errno=True).mount(os.fsencode(source), os.fsencode(place), None, flags, None):
        sys.exit(f"{place}: {os.strerror(ctypes.get_errno())}")


def main(name: str, folder: str, *command: str) -> None:
    os.unshare(os.CLONE_NEWNS | os.CLONE_NEWUTS)
    socket.sethostname(name)
    mount("none", "/", MS_REC | MS_PRIVATE)
    for part, place in PLACES.items():
        mount(f"{folder}/{part}", place, MS_BIND)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
