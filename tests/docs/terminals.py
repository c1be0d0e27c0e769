"""Types what a page shows, in real shells, and compares the answers."""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ANSWER = 300.0  # seconds for a command; the first `sandbox up` of a machine unpacks a Debian
POLL_TIMEOUT_S = 45.0  # for output that appears after a while
POLLED = ("cat ", "grep ", "squeue", "tiresias status", "tiresias explain")  # may be given again until they show it
END = "---- that was all: "


class Terminal:
    """A shell that stays, so that `export`, `cd` and `$!` work as for a reader of the page."""

    def __init__(self, words: list[str], cwd: Path, env: Mapping[str, str]) -> None:
        self._shell = subprocess.Popen(
            words, cwd=cwd, env=env, text=True, bufsize=1, errors="replace",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._shell.stdout
        for line in self._shell.stdout:
            self._lines.put(line)
        self._lines.put(END)

    def type(self, command: str) -> str:
        """Run a command; its output, errors included."""
        assert self._shell.stdin
        self._shell.stdin.write(f"{{ {command}\n}} < /dev/null\necho; echo '{END}'\n")
        self._shell.stdin.flush()
        output, deadline = "", time.monotonic() + ANSWER
        while True:
            try:
                line = self._lines.get(timeout=max(deadline - time.monotonic(), 0.01))
            except queue.Empty:
                raise AssertionError(f"no end of {command!r} in {ANSWER:g} s: {output}") from None
            if line.startswith(END):
                return output
            output += line

    def close(self) -> None:
        self._shell.kill()
        self._shell.wait()


class Terminals:
    """The own machine's, and one for each user of the private cluster. name: the cluster's, which the pages call default."""

    def __init__(self, name: str, cwd: Path, env: Mapping[str, str]) -> None:
        self._name, self._cwd, self._env = name, cwd, env
        self._open: dict[str, Terminal] = {}

    def do(self, page: Path, step: Any) -> None:
        """step: console.Step. Raises AssertionError."""
        terminal, deadline = self._of(step.user), time.monotonic() + POLL_TIMEOUT_S
        output = terminal.type(step.command)
        while not step.is_answered_by(shown := output.replace(self._name, "default")):
            if not step.command.startswith(POLLED) or time.monotonic() > deadline:
                expected = "\n".join(step.answer)
                head = f"{page.name}, line {step.line}: {step.command}"
                raise AssertionError(f"{head}\n--- on the page\n{expected}\n--- printed\n{shown}")
            time.sleep(0.2)
            output = terminal.type(step.command)

    def _of(self, user: str) -> Terminal:
        if user not in self._open:
            inside = ["tiresias", "sandbox", "run", "--user", user, "--"] if user else []
            self._open[user] = Terminal([*inside, "bash", "--norc"], self._cwd, self._env)
        return self._open[user]

    def close(self) -> None:
        for terminal in self._open.values():
            terminal.close()
