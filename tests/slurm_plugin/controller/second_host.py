"""Run a program of the cluster as on a second host: with another host name and its own local folders.

    python3 second_host.py NAME FOLDER COMMAND...

/run/slurm, /run/tiresias and /var/log/slurm are the folders run, tiresias and log in FOLDER. Everything else is the same:
the network, the processes, the shared file system.
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
    os.unshare(os.CLONE_NEWNS | os.CLONE_NEWUTS)  # type: ignore[attr-defined]  # of Python 3.12, which the cluster has
    socket.sethostname(name)
    mount("none", "/", MS_REC | MS_PRIVATE)
    for part, place in PLACES.items():
        mount(f"{folder}/{part}", place, MS_BIND)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
