"""Programs whose framework is imported once for all of them: python nursery.py MODULE...

    {"command": ["program.py", "argument"], "cwd": "/tmp/x", "env": {...}, "log": "/tmp/x/log"}     a line that asks for one
    {"began": 7}                                                                                    its process id
    {"ended": 7, "code": 99}                                                                        when that is over

Each is forked from this process, which has made the import and nothing else, and then becomes the program: `Nursery` and `Child`
are to the caller what subprocess is. Seconds of processor time each, where a job's ranks start again and again.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import random
import runpy
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn


class Child:
    """What of subprocess.Popen a test needs."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery, self.pid = nursery, pid

    def poll(self) -> int | None:
        return self._nursery.code(self.pid, 0.0)

    def wait(self, timeout: float) -> int:
        code = self._nursery.code(self.pid, timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class Nursery:
    """Closing it kills no child: the caller ends them."""

    def __init__(self, modules: Sequence[str], env: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        words = [sys.executable, __file__, *modules]
        # without a buffer: `select` sees what is there
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, env=env, bufsize=0)
        self._codes: dict[int, int] = {}
        self._began: list[int] = []

    def start(self, command: Sequence[str], cwd: Path, env: dict[str, str], log: Path) -> Child:
        assert self._process.stdin is not None
        asked = {"command": list(command), "cwd": str(cwd), "env": env, "log": str(log)}
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        while not self._began:
            self._receive()
        return Child(self, self._began.pop())

    def code(self, pid: int, timeout: float) -> int | None:
        deadline = time.monotonic() + timeout
        while pid not in self._codes:
            assert self._process.stdout is not None
            if not select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return None
            self._receive()
        return self._codes[pid]

    def _receive(self) -> None:
        assert self._process.stdout is not None
        message = json.loads(self._process.stdout.readline() or '{"gone": 0}')
        assert "gone" not in message, "the nursery has died"
        if "began" in message:
            self._began.append(message["began"])
        else:
            self._codes[message["ended"]] = message["code"]

    def close(self) -> None:
        self._process.communicate(timeout=60)


def main() -> None:
    for module in sys.argv[1:]:
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, _reap)
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        if (pid := os.fork()) == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _become(**asked)
        _send(began=pid)


def _reap(*_: object) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _send(ended=pid, code=os.waitstatus_to_exitcode(status))


def _send(**words: int) -> None:
    os.write(1, json.dumps(words).encode() + b"\n")


def _become(command: list[str], cwd: str, env: dict[str, str], log: str) -> NoReturn:
    """As if a fresh interpreter had been started: with a session, a folder, an environment and random numbers of its own."""
    code = 1
    try:
        os.setsid()
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        handle, nothing = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, nothing), (1, handle), (2, handle)):
            os.dup2(source, target)
        random.seed()
        sys.argv = command
        sys.path[0] = str(Path(command[0]).parent)
        code = _run(command[0])
    finally:
        os._exit(code)


def _run(program: str) -> int:
    """Its exit code, as an interpreter finds it."""
    code = 0
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    main()
