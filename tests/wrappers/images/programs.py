"""Programs without checkpoints, and the scripts that run them: numpy, PyTorch, C, and a shell pipeline.

Each writes `result` at its end, the same bytes whenever it runs undisturbed.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

PYTHON = shlex.quote(sys.executable)
NUMPY = """\
import hashlib, sys, time
import numpy as np
steps, pace = int(sys.argv[1]), float(sys.argv[2])
random, state = np.random.default_rng(7), np.eye(120)
with open("trace", "w") as trace:
    for step in range(steps):
        state = np.tanh(state @ state.T / 120 + random.standard_normal((120, 120)) / 10)
        print(step, float(state.sum()), file=trace, flush=True)
        time.sleep(pace)
open("result", "w").write(hashlib.sha256(state.tobytes()).hexdigest() + hashlib.sha256(open("trace", "rb").read()).hexdigest())
"""
_TRAINING = """\
import hashlib, os, sys, time
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import torch
steps, pace = int(sys.argv[1]), float(sys.argv[2])
torch.manual_seed(3)
torch.set_num_threads(2)
torch.use_deterministic_algorithms(True)
first, last = torch.nn.Linear({inputs}, {hidden}), torch.nn.Linear({hidden}, 8)
model = torch.nn.Sequential(first, torch.nn.Dropout(0.1), torch.nn.ReLU(), last).to("{device}")
optimizer = torch.optim.AdamW(model.parameters())
for step in range(steps):
    inputs = torch.randn(256, {inputs}, device="{device}")
    loss = (model(inputs) - inputs[:, :8].sin()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), flush=True)
    time.sleep(pace)
digest = hashlib.sha256()
for value in model.state_dict().values():
    digest.update(value.cpu().numpy().tobytes())
open("result", "w").write(digest.hexdigest())
"""
TORCH = _TRAINING.format(inputs=64, hidden=128, device="cpu")
ON_A_GPU = _TRAINING.format(inputs=512, hidden=4096, device="cuda")
C = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int count, char **words) {
    long steps = atol(words[1]);
    struct timespec pace = {0, (long)(atof(words[2]) * 1e9)};
    size_t size = 1 << 20;
    unsigned long *table = malloc(size * sizeof *table), value = 1;
    for (size_t i = 0; i < size; i++) table[i] = i;
    FILE *trace = fopen("trace", "w");
    for (long step = 0; step < steps; step++) {
        for (int i = 0; i < 20000; i++) {
            value = value * 6364136223846793005UL + 1442695040888963407UL;
            table[value >> 44] += value ^ table[(value >> 24) % size];
        }
        fprintf(trace, "%ld %lu %d\n", step, value, (int)(getpid() == getpgrp()));
        nanosleep(&pace, NULL);
    }
    fclose(trace);
    unsigned long sum = 0;
    for (size_t i = 0; i < size; i++) sum = sum * 31 + table[i];
    FILE *result = fopen("result", "w");
    fprintf(result, "%lu %lu\n", value, sum);
    return fclose(result);
}
"""
PIPELINE = """\
for i in $(seq 1 {steps}); do echo "line $i"; sleep {pace}; done |
    awk '{{ sum = (sum * 31 + $2) % 1000003; print NR, sum }}' | tee trace | sha256sum > result
cat trace >> result
"""
NAMES = ("numpy", "torch", "c", "pipeline")
CUDA = "cuda"  # needs a GPU
PRINTING = ("torch", CUDA)  # a line for each step: they take seconds before the first one


def script(name: str, folder: Path, steps: int, pace: float) -> str:
    """Write the program into a folder; return the lines of a script that run it."""
    return _MAKERS[name](folder, steps, pace)


def undisturbed(text: str, folder: Path) -> bytes:
    """Run a script in a new folder without a supervisor; return what it writes to `result`."""
    here = folder / "undisturbed"
    here.mkdir()
    for path in folder.iterdir():
        if path.suffix in (".py", "") and path.is_file():
            shutil.copy(path, here)
    subprocess.run(["/bin/bash", "-c", text], cwd=here, check=True, stdout=subprocess.DEVNULL)
    return (here / "result").read_bytes()


def _python(text: str) -> Callable[[Path, int, float], str]:
    def write(folder: Path, steps: int, pace: float) -> str:
        (folder / "program.py").write_text(text)
        return f"{PYTHON} program.py {steps} {pace}"

    return write


def _compiled(folder: Path, steps: int, pace: float) -> str:
    subprocess.run(
        ["gcc", "-O2", "-x", "c", "-o", str(folder / "program"), "-"],
        input=C,
        text=True,
        check=True,
        capture_output=True,
    )
    return f"./program {steps} {pace}"


def _pipeline(folder: Path, steps: int, pace: float) -> str:
    return PIPELINE.format(steps=steps, pace=pace)


_MAKERS: dict[str, Callable[[Path, int, float], str]] = {
    "numpy": _python(NUMPY),
    "torch": _python(TORCH),
    "c": _compiled,
    "pipeline": _pipeline,
    CUDA: _python(ON_A_GPU),
}
