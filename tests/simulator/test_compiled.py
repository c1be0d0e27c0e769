"""etc/packages/compiled.py: the compiled copy gives the results of the sources, to the last digit."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tiresias.simulator.experiments.experiment import ALL_POLICIES

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "etc/packages/compiled.py"
LACKS = [name for name in ("mypyc", "setuptools", "mypy_extensions") if importlib.util.find_spec(name) is None]
COMPILER = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
LACKS += [] if shutil.which(COMPILER) else [COMPILER]
LACKS += [] if Path(sysconfig.get_path("include"), "Python.h").exists() else ["Python.h"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(LACKS), reason=f"not installed: {', '.join(LACKS)}"),
    pytest.mark.xdist_group("compiled"),
]
OPTIONS = {
    "plain": ["--threshold", "3200,32000"],
    "costs and limits": ["--preemption-cost", "10,52", "--starve-limit", "3600", "--min-run", "60"],
    "by node": ["--by-node", "--placement", "consolidate", "--defragment", "4"],
}
LOADED = """
import importlib, sys
for name in ("scheduler.elementwise", "scheduler.job_queue", "scheduler.rank.las", "simulator.event_loop"):
    file = importlib.import_module("tiresias." + name).__file__
    assert file.startswith(sys.argv[1]) and file.endswith(".so"), file
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("compiled")
    subprocess.run([sys.executable, SCRIPT, out, "--opt-level", "0"], check=True, capture_output=True, text=True)
    return out


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("trace") / "trace.csv"
    _run(ROOT / "src", "-m", "tiresias", "workload", "testbed", "--jobs", "60", "--seed", "5", "--out", str(file))
    return file


def test_the_compiled_copy_is_what_runs(copy: Path) -> None:
    _run(copy, "-c", LOADED, str(copy))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_results_are_the_same_to_the_last_digit(copy: Path, trace: Path, options: list[str], tmp_path: Path) -> None:
    policies = [name for name in ALL_POLICIES if not name.startswith("continuous")]
    found = [_results(tree, trace, policies, options, tmp_path / tree.name) for tree in (ROOT / "src", copy)]
    assert found[0] == found[1]


def _results(
    tree: Path, trace: Path, policies: list[str], options: list[str], out: Path
) -> tuple[object, bytes, bytes]:
    out.mkdir()
    files = [out / name for name in ("out.json", "jobs.csv", "series.csv")]
    named = [word for pair in zip(("--json", "--jobs-out", "--series"), map(str, files), strict=True) for word in pair]
    size = ["--nodes", "15", "--gpus-per-node", "4", "--policy", ",".join(policies)]
    _run(tree, "-m", "tiresias", "simulate", str(trace), *size, *options, *named)
    numbers = json.loads(files[0].read_text())
    for each in numbers["policies"].values():
        del each["wall_seconds"]
    return numbers, files[1].read_bytes(), files[2].read_bytes()


def _run(tree: Path, *words: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
