"""Every module can be imported with the declared dependencies alone; an adapter needs its own framework and nothing else."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests import installed

# run by the environment's own interpreter: module -> the package that its import did not find, or "" where it worked
PROGRAM = """
import importlib, json, pkgutil, tiresias
found = {}
for module in pkgutil.walk_packages(tiresias.__path__, "tiresias."):
    try:
        importlib.import_module(module.name)
        found[module.name] = ""
    except ModuleNotFoundError as error:
        found[module.name] = error.name
print(json.dumps(found))
"""
ADAPTERS = "tiresias.checkpoint.adapters."
AGENT = "tiresias.services.parameter_service.agent."
FRAMEWORKS = {  # of the modules that are for programs which have the framework
    f"{ADAPTERS}encoding": "torch",
    f"{ADAPTERS}torch": "torch",
    f"{ADAPTERS}ddp": "torch",
    f"{ADAPTERS}fsdp": "torch",
    f"{ADAPTERS}rank_waits": "torch",
    f"{ADAPTERS}wait_clocks": "torch",
    f"{ADAPTERS}hf": "torch",
    f"{ADAPTERS}lightning": "lightning",
    f"{ADAPTERS}submitit": "submitit",
    f"{AGENT}bucket_buffers": "torch",
    f"{AGENT}ddp_hook": "torch",
    f"{AGENT}service_optimizer": "torch",
    f"{AGENT}tensor_buffers": "torch",
    f"{AGENT}torch_optimizers": "torch",
    "tiresias.simulator.learning.actor_critic": "torch",
    "tiresias.simulator.learning.episode_batch": "torch",
    "tiresias.simulator.learning.placement_training": "torch",
    "tiresias.simulator.learning.torch_operations": "torch",
    "tiresias.simulator.learning.training_checkpoint": "torch",
    "tiresias.slurm_plugin.backends.pyslurm_worker": "pyslurm",
}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    return installed.make(tmp_path_factory.mktemp("imports") / "venv", wheel) / "bin/python"


def run(python: Path, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, "-I", "-c", code], cwd="/", capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("package", ["scipy", "torch", "matplotlib", "pytest"])
def test_the_environment_lacks_what_is_no_dependency(python: Path, package: str) -> None:
    assert "ModuleNotFoundError" in run(python, f"import {package}").stderr


def test_every_module_can_be_imported(python: Path) -> None:
    done = run(python, PROGRAM)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) > 250, "walking found too little"
    assert {name: missing for name, missing in found.items() if missing} == FRAMEWORKS


def test_the_exact_placement_without_scipy_is_one_line(python: Path) -> None:
    code = "import numpy as np\nfrom tiresias.scheduler.place import optimum\noptimum.pack(np.ones(2, int), np.zeros(2, int), 1)"
    error = run(python, code).stderr.splitlines()[-1]
    assert error.endswith("the exact placement needs scipy: pip install 'slurm-tiresias[optimum]'")


def test_a_training_without_pytorch_is_one_line(python: Path) -> None:
    code = (
        "from tiresias.__main__ import main\n"
        "raise SystemExit(main(['placement', 'train', '--topology', 'fat_tree:2', '--out', '/tmp/placement.npz']))"
    )
    done = run(python, code)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tiresias: training needs PyTorch; install it with: pip install 'slurm-tiresias[torch]'\n"


def test_the_agent_without_pytorch_is_one_line(python: Path) -> None:
    error = run(
        python, "from tiresias.services.parameter_service.agent import ParameterServiceOptimizer"
    ).stderr.splitlines()
    assert error[-1].endswith("the agent of the parameter service needs PyTorch: pip install 'slurm-tiresias[torch]'")


def test_an_aggregator_runs_without_pytorch(python: Path) -> None:
    done = run(
        python, "import runpy; runpy.run_module('tiresias.services.parameter_service.aggregator', run_name='__main__')"
    )
    assert "the following arguments are required: FILE" in done.stderr
    assert "import torch" not in done.stderr
