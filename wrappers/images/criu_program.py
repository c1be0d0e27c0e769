"""The process that starts, restores or dumps a program in namespaces of its own (namespaces.py).

    criu_program FOLDER launch COMMAND...    start it
    criu_program FOLDER restore              restore it from the images in FOLDER
    criu_program FOLDER dump PID             dump it; PID: the first process of its namespace
    criu_program FOLDER check                print why namespaces are unavailable, or nothing

The program's first process has the number 1000 in its namespace, the leader of a session. The namespace's own first process waits
for it, passes signals on to it and ends with its exit code; all processes of the namespace end then.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tiresias.protocol.job_log import log_line
from tiresias.wrappers.images import criu, namespaces
from tiresias.wrappers.images.criu import CriuPlace

ROOT = 1000  # the program's number; those below are for CRIU's own processes
CAPABILITIES = namespaces.CHECKPOINT_RESTORE, namespaces.SETPCAP
LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
PASSED_ON = [
    getattr(signal, f"SIG{name}") for name in ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "CONT", "XCPU", "WINCH")
]
LARGEST_DELETED_FILE = "1G"  # that is open, and becomes a part of the image
CANNOT_EXECUTE = 127


def main(words: list[str]) -> int:
    """Run; return the exit code."""
    folder, mode, *rest = words
    place = CriuPlace(Path(folder))
    if mode == "check":
        return _check()
    if mode == "dump":
        try:
            namespaces.enter_of(int(rest[0]))
        except OSError as error:
            print(f"its namespaces cannot be entered: {error.strerror}")
            return 1
        return _waited(_forked(lambda: _criu(place, "dump", "--leave-stopped", "--ghost-limit", LARGEST_DELETED_FILE)))
    return _outside(place, rest if mode == "launch" else [])


def _check() -> int:
    try:
        namespaces.enter_new()
    except OSError as error:
        print(f"user namespaces are unavailable ({error.strerror})")
        return 1
    if _waited(_forked(namespaces.mount_proc)):
        print("/proc cannot be mounted in a user namespace, as in some containers,")
        return 1
    return 0


def _outside(place: CriuPlace, command: list[str]) -> int:
    """Start the namespaces' first process; return the exit code of the program."""
    ready, starts = os.pipe()
    namespaces.enter_new()
    first = _forked(lambda: _first(place, command, starts))
    os.close(starts)
    _pass_on(first)
    if os.read(ready, 1):
        place.note_first(first)
    return _waited(first)


def _first(place: CriuPlace, command: list[str], starts: int) -> None:
    """Be the first process of the namespaces."""
    namespaces.end_with_parent(signal.SIGKILL)
    namespaces.mount_proc()
    namespaces.limit_root(*CAPABILITIES)
    _reopen()
    restored = 0 if command else _restored(place)
    LAST_PID.write_text(str(ROOT - 1), encoding="ascii")
    program = restored or _launched(command)
    _pass_on(program)
    os.write(starts, b"1")
    while True:
        ended, status = os.wait()
        if ended == program:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _launched(command: list[str]) -> int:
    """Start the program; return its number once it executes."""
    executes, held = os.pipe()

    def become() -> None:
        os.setsid()
        namespaces.adopt_orphans()
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], command)

    program = _forked(become)
    os.close(held)
    os.read(executes, 1)
    os.close(executes)
    return program


def _restored(place: CriuPlace) -> int:
    """Restore the program; return its number. Ends the namespace where CRIU cannot restore it."""
    if _waited(_forked(lambda: _criu(place, "restore", "--restore-detached"))):
        log_line(f"the program is not restored: {place.problem('')}")
        os._exit(1)
    if _waited(_forked(lambda: os._exit(not place.resume_gpus(_numbers())))):
        os._exit(1)
    return ROOT


def _numbers() -> list[int]:
    """Return the numbers of the program's processes in this namespace."""
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and int(path.name) >= ROOT]


def _criu(place: CriuPlace, action: str, *words: str) -> None:
    """Become CRIU."""
    namespaces.limit_root(*CAPABILITIES)
    namespaces.keep(*CAPABILITIES)
    target = ["--tree", str(ROOT)] if action == "dump" else []
    folders = ["--images-dir", str(place.images), "--work-dir", str(place.folder), "--log-file", criu.LOG]
    own = ["--unprivileged", "--manage-cgroups=ignore", "--file-locks", "-v1"]
    os.execv(criu.criu(), ["criu", action, *target, *folders, *own, *words])


def _forked(work: Callable[[], None]) -> int:
    """Run `work` in a child; return its number. The child's exit code is 127 where an OSError ends it."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except OSError as error:
        print(f"tiresias: {error}", file=sys.stderr, flush=True)
        os._exit(CANNOT_EXECUTE)
    os._exit(0)


def _waited(child: int) -> int:
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def _pass_on(child: int) -> None:
    def send(number: int, _: object) -> None:
        with suppress(OSError):
            os.kill(child, number)

    for number in PASSED_ON:
        signal.signal(number, send)


def _reopen() -> None:
    """Open the files of this process anew: CRIU finds only those that were opened in the program's own mounts."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):
            number, path = int(entry.name), str(entry.readlink())
            if path.startswith("/") and os.get_inheritable(number):
                _replace(number, path, fcntl.fcntl(number, fcntl.F_GETFL))


def _replace(number: int, path: str, flags: int) -> None:
    opened = os.open(path, flags | os.O_CLOEXEC)
    if os.path.samestat(os.fstat(opened), os.fstat(number)):
        with suppress(OSError):
            os.lseek(opened, os.lseek(number, 0, os.SEEK_CUR), os.SEEK_SET)
        os.dup2(opened, number)
    os.close(opened)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
