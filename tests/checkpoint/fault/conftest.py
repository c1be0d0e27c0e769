"""Builds fault.c, keeps program.py running, and has it run its scenario with one fault at a time."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tiresias.checkpoint import Store, blocks

HERE = Path(__file__).parent
KILL = -1
ROUNDS = int(os.environ.get("TIRESIAS_FAULT_ROUNDS", "1"))
Contents = Callable[[int], dict[str, Any]]


class Outcome(NamedTuple):
    """saved: the scenario came to its end; refused: it raised a TiresiasError, `message`; killed: by the fault."""

    saved: bool
    refused: bool
    killed: bool
    calls: int
    message: str


class Injector:
    def __init__(self, library: Path, scenario: str) -> None:
        self._program = subprocess.Popen(
            [sys.executable, str(HERE / "program.py"), scenario],
            env={**os.environ, "LD_PRELOAD": str(library)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(
        self, root: Path, at: int = 0, action: int = KILL, lasting: bool = False, log: Path | None = None
    ) -> Outcome:
        assert self._program.stdin
        assert self._program.stdout
        order = {"root": str(root), "at": at, "action": action, "lasting": lasting, "log": str(log or "")}
        print(json.dumps(order), file=self._program.stdin, flush=True)
        status, calls, message = json.loads(self._program.stdout.readline())
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        code = -1 if killed else os.waitstatus_to_exitcode(status)
        assert killed or code in (0, 3), f"call {at}, action {action}: {code} {message}"
        assert "waited" not in message, f"call {at}, action {action}: a rank was left waiting"
        return Outcome(code == 0, code == 3, killed, calls, message)

    def close(self) -> None:
        self._program.kill()
        self._program.communicate()


class Case:
    """One fault, on a copy of its own of the folder `before`, which holds the steps 10 and 20."""

    def __init__(self, injector: Injector, before: Path, expected: Contents) -> None:
        self.before, self.root, self.expected = before, before.with_name("root"), expected
        self.injector = injector

    def run(self, at: int = 0, action: int = KILL, lasting: bool = False) -> Outcome:
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.before, self.root)
        return self.injector.run(self.root, at, action, lasting)

    def points(self) -> Iterator[int]:
        """Every call there is. Threads give another order each time: TIRESIAS_FAULT_ROUNDS=n goes over all n times."""
        for _ in range(ROUNDS):
            yield from range(1, self.run().calls + 1)

    def check(self, newest: int) -> None:
        """A reader gets `newest` at least, and exactly what was saved; and the next save goes on."""
        store = Store(self.root)
        found = store.restore()
        assert found is not None
        assert found.step in {newest, 30}
        assert {name: found.state[name] for name in self.expected(found.step)} == self.expected(found.step)
        assert not store.set_aside(), "a reader saw one that was not whole"
        store.save(40, self.expected(40))
        assert {path.name for path in self.root.iterdir()} == {f"step-{found.step}", "step-40"}


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (compiler := shutil.which("gcc") or shutil.which("cc")):
        pytest.skip("needs a C compiler for fault.c")
    built = tmp_path_factory.mktemp("fault") / "fault.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", built, HERE / "fault.c", "-ldl"], check=True, timeout=60)
    return built


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in which a sync costs nothing: thousands follow, and dying processes leave the same files everywhere."""
    place = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else tmp_path
    folder = Path(tempfile.mkdtemp(prefix="tiresias-fault-", dir=place))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def case(
    library: Path, memory: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Case]:
    """Parametrised by the scenario of program.py."""
    program = runpy.run_path(str(HERE / "program.py"))
    monkeypatch.setattr(blocks, "BLOCK", program["BLOCK"])
    expected: Contents = program["expected"]
    store = Store(memory / "before")
    for step in (10, 20):
        store.save(step, expected(step))
    injector = Injector(library, request.param)
    yield Case(injector, store.root, expected)
    injector.close()
