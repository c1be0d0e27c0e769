"""What the recorder costs a program, in ns a call; prints JSON.

    python3 bench/profiler.py [--rounds 300] [--folder DIR] [--megabytes 4096]

`send` is an empty send over TCP, `write` one to /dev/null, which is none of the recorder's business, `post` one to a
queue pair of a libibverbs that does nothing (bar: 50 ns). Every round makes 1,000 calls as the program makes them and
1,000 that go past the recorder. `ns` is the median difference of the rounds, `quartiles` are its; `without` is the same
with no recorder loaded, `switched_off` with TIRESIAS_PROFILE=0. `clock` is what reading the clock takes on this machine:
each record needs it once. `stream` sends that many megabytes over loopback, 64 KiB a call: `ratio` is the throughput of
recorded runs by that of plain ones, in turns, the median (bar: 0.99), `processor` the same by processor time of both
ends, which other programs on the machine disturb less. Records go to --folder.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiresias.profiler import build

HERE = Path(__file__).resolve().parent
FAKE = HERE.parent / "tests/profiler/native/programs"
PROGRAM = (HERE / "profiler.c", build.SOURCE / "clock.c", build.SOURCE / "system.c")
CALLS = 1000
Run = Callable[..., str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--megabytes", type=int, default=4096)
    parser.add_argument("--streams", type=int, default=15, help="runs of a stream, each with and without")
    args = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="bench-profiler-", dir=args.folder))
    try:
        found = measure(scratch, args)
    finally:
        shutil.rmtree(scratch)
    print(json.dumps({"cpus": os.cpu_count(), "load": os.getloadavg()[0], "machine": machine(), **found}, indent=2))


def measure(scratch: Path, args: argparse.Namespace) -> dict[str, Any]:
    plain = compiled(scratch, "profiler", sources=PROGRAM)
    rows = {what: calls(runner(scratch, plain), what, args.rounds) for what in ("send", "write")}
    if build.libraries().verbs:
        rows["post"] = calls(runner(scratch, posting(scratch)), "post", args.rounds)
    clock = statistics.median(differences(runner(scratch, plain)("clock", args.rounds, CALLS)))
    return {**rows, "clock": clock, "stream": stream(runner(scratch, plain), args.megabytes, args.streams)}


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def compiled(scratch: Path, name: str, *options: str, sources: tuple[Path, ...]) -> Path:
    made = scratch / name
    command = [
        os.environ.get("CC", "cc"),
        "-O2",
        "-D_GNU_SOURCE",
        *map(str, sources),
        *options,
        "-ldl",
        "-o",
        str(made),
    ]
    subprocess.run(command, check=True, timeout=60)
    return made


def posting(scratch: Path) -> Path:
    script = f"-Wl,--version-script={FAKE / 'fake_ibverbs.map'}"
    name = "libibverbs.so.1"
    options = ("-shared", "-fPIC", f"-Wl,-soname,{name}", script)
    fake = compiled(scratch, name, *options, sources=(FAKE / "fake_ibverbs.c",))
    return compiled(scratch, "posts", "-DPOSTS", str(fake), f"-Wl,-rpath,{scratch}", sources=PROGRAM)


def runner(scratch: Path, program: Path) -> Run:
    """run(*arguments, **environment): the program's output; a recording it made is removed."""

    def run(*arguments: object, recorded: bool = False, **environment: str) -> str:
        preload = {"LD_PRELOAD": str(build.libraries().net)} if recorded else {}
        whole = {**os.environ, "TIRESIAS_PROFILE_DIR": str(scratch), **preload, **environment}
        command = [str(program), *(str(each) for each in arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300, env=whole)
        made = list(scratch.glob("*.net"))
        expected = recorded and "TIRESIAS_PROFILE" not in environment and arguments[0] != "write"
        if bool(made) != expected:
            sys.exit(f"{program.name} {arguments}: {len(made)} recordings")
        for file in made:
            file.unlink()
        return done.stdout

    return run


def differences(output: str) -> list[float]:
    pairs = [line.split() for line in output.splitlines()]
    return [float(recorded) - float(bare) for recorded, bare in pairs]


def calls(run: Run, what: str, rounds: int) -> dict[str, Any]:
    found = differences(run(what, rounds, CALLS, recorded=True))
    return {
        "ns": statistics.median(found),
        "quartiles": statistics.quantiles(found, n=4)[::2],
        "without": statistics.median(differences(run(what, rounds, CALLS))),
        "switched_off": statistics.median(differences(run(what, rounds, CALLS, recorded=True, TIRESIAS_PROFILE="0"))),
    }


def stream(run: Run, megabytes: int, repeat: int) -> dict[str, Any]:
    def seconds(recorded: bool) -> list[float]:
        return [float(word) for word in run("stream", megabytes, 0, recorded=recorded).split()]

    ratios = [
        [bare / recorded for bare, recorded in zip(seconds(False), seconds(True), strict=True)] for _ in range(repeat)
    ]
    found: dict[str, Any] = {"megabytes": megabytes}
    for name, column in zip(("ratio", "processor"), zip(*ratios, strict=True), strict=True):
        found[name], found[f"{name}_quartiles"] = statistics.median(column), statistics.quantiles(column, n=4)[::2]
    return found


if __name__ == "__main__":
    main()
