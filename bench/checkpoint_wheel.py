"""Size and import time of slurm-tiresias-checkpoint in an environment without any other distribution; prints JSON.

    python3 bench/checkpoint_wheel.py [--repeat 15]

Builds the wheel (hatchling), installs it into a new virtual environment and imports from there, each time in a new process.
`seconds` is the median wall time of the process beyond that of a process which imports nothing, `spread` the distance of the
quartiles; `fastest` compares the fastest processes, which a busy machine disturbs least. `foreign` names the modules outside of the
standard library that the import brings.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1] / "etc/packages/checkpoint"
IMPORTS = {
    "nothing": "pass",
    "tiresias.checkpoint": "import tiresias.checkpoint",
    "Checkpointer": "from tiresias.checkpoint import Checkpointer",
}
FOREIGN = """
import json, sys
before = set(sys.modules)
{text}
added = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(json.dumps(sorted(added - sys.stdlib_module_names - {{"tiresias"}})))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=15)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory(prefix="bench-wheel-") as folder:
        wheel, python = build(Path(folder)), Path(folder, "venv/bin/python")
        install(wheel, python)
        installed = [path for path in Path(folder, "venv").rglob("site-packages/**/*") if path.is_file()]
        sizes = {"wheel_bytes": wheel.stat().st_size, "installed_bytes": sum(path.stat().st_size for path in installed)}
        times = seconds(python, repeat)
        found = {name: json.loads(code(python, FOREIGN.format(text=text))) for name, text in IMPORTS.items()}
    rows = {name: {**times[name], "foreign": found[name]} for name in IMPORTS if name != "nothing"}
    print(
        json.dumps(
            {"python": platform.python_version(), "load": os.getloadavg()[0], **sizes, "imports": rows}, indent=2
        )
    )


def build(folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def install(wheel: Path, python: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(python.parents[1])], check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run([*pip, "install", "--quiet", "--no-index", str(wheel)], check=True)


def seconds(python: Path, repeat: int) -> dict[str, dict[str, Any]]:
    """In turns, so that a busy moment of the machine meets all alike."""
    taken: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for _ in range(repeat):
        for name, text in IMPORTS.items():
            began = time.perf_counter()
            code(python, text)
            taken[name].append(time.perf_counter() - began)
    return {name: _row(values, taken["nothing"]) for name, values in taken.items()}


def _row(values: list[float], base: list[float]) -> dict[str, float]:
    low, _, high = statistics.quantiles(values, n=4)
    median = statistics.median(values) - statistics.median(base)
    return {"seconds": round(median, 4), "spread": round(high - low, 4), "fastest": round(min(values) - min(base), 4)}


def code(python: Path, text: str) -> str:
    return subprocess.run([str(python), "-c", text], check=True, capture_output=True, text=True, cwd="/").stdout


if __name__ == "__main__":
    main()
