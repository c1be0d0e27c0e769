"""Enter a Debian tree as Apptainer and enroot do for a user: user and mount namespaces, folders of the host at the same paths.

unshare --user --map-current-user --keep-caps --mount [--pid --fork --kill-child] python3 container.py TREE FOLDER -- PROGRAM ...
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

BIND, RECURSIVE = 4096, 16384  # mount(2)
LIBC = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: Path, kind: str = "", flags: int = 0) -> None:
    if LIBC.mount(source.encode(), os.fsencode(target), kind.encode(), flags, None):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(target))


def main() -> None:
    tree, folder, _, *program = sys.argv[1:]
    inside = Path(tree, folder.lstrip("/"))
    mount(folder, inside, flags=BIND | RECURSIVE)
    if os.getpid() == 1:  # in a PID namespace of its own
        mount("proc", Path(tree, "proc"), "proc")
    else:
        mount("/proc", Path(tree, "proc"), flags=BIND | RECURSIVE)
    os.chroot(tree)
    os.chdir("/")
    os.execv(program[0], program)


main()
