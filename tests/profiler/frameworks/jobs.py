"""Runs a program of a framework, unmodified, as many processes under the preloaded recorder.

The interpreter that has the framework is this one, or the one that <FRAMEWORK>_PYTHON names (TORCH_PYTHON,
TENSORFLOW_PYTHON): none of them is among the project's own requirements.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.profiler.tensors import tensors
from tiresias.profiler.analysis import Profile, analyze
from tiresias.profiler.build import libraries
from tiresias.profiler.recordings.recording import read

HERE = Path(__file__).parent
JOB_TIMEOUT_S = 200.0


@dataclass(frozen=True)
class Result:
    profile: Profile
    seconds: float  # of an iteration, as the program measured


def interpreter(framework: str) -> str:
    """Skips the test where there is none."""
    if not (shutil.which("make") and shutil.which("cc")):
        pytest.skip("no make, or no C compiler")
    if named := os.environ.get(f"{framework.upper()}_PYTHON"):
        return named
    if find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed, and {framework.upper()}_PYTHON names no interpreter that has it")
    return sys.executable


def run(
    framework: str,
    program: str,
    folder: Path,
    *,
    model: str,
    scale: int,
    workers: int,
    servers: int = 0,
    chiefs: int = 0,
    **more: object,
) -> Result:
    """Ranks are workers, servers, chiefs; the job is over when its chiefs are, or its workers where there are none.

    Keyword arguments in capitals go into the environment, the others are the program's options.
    """
    python, ranks = interpreter(framework), workers + servers + chiefs
    environment = {**os.environ, "LD_PRELOAD": str(libraries().net), "TIRESIAS_PROFILE_DIR": str(folder)}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    )  # tensors.py
    environment |= {name: str(value) for name, value in more.items() if name.isupper()}
    options = {"model": model, "scale": scale, "workers": workers, "servers": servers, "truth": folder, **more}
    command = [python, str(HERE / program), "--ports", *map(str, _free_ports(ranks))]
    command += [word for name, value in options.items() if not name.isupper() for word in (f"--{name}", str(value))]
    with ExitStack() as stack:
        started = [_start([*command, "--rank", str(rank)], environment, folder, stack) for rank in range(ranks)]
        for process in started[-chiefs:] if chiefs else started[:workers]:
            assert process.wait(JOB_TIMEOUT_S) == 0, (folder / "log").read_text()
        return Result(analyze([read(file) for file in sorted(folder.glob("*.net"))]), _seconds(folder))


def _start(command: list[str], environment: dict[str, str], folder: Path, stack: ExitStack) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in taken]


def _seconds(folder: Path) -> float:
    """The median iteration of the median worker."""
    each = [statistics.median(json.loads(file.read_text())) for file in folder.glob("[0-9]*.json")]
    return float(statistics.median(each))


def sizes(model: str, scale: int) -> list[int]:
    """Bytes of the tensors as the programs train them."""
    return [max(size // 4 // scale, 1) * 4 for size in tensors(model)]
