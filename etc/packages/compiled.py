"""Builds a copy of the package whose simulator is compiled by mypyc, from the same sources: an option for long replays.

    python etc/packages/compiled.py OUT [--opt-level 3]
    OUT/bin/tiresias simulate ...

OUT/tiresias then has a shared library beside each of MODULES; Python loads it in place of the source. Results are the same to the
last digit. Needs the packages mypy[mypyc] and setuptools, those that slurm-tiresias requires, and a C compiler. The libraries are
for the Python that runs this file. An outdated copy refuses to run (`copy_check.py`).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from shlex import quote

from copy_check import write_notes
from one_job import add_versions

ROOT = Path(__file__).resolve().parents[2]
# What every event of a simulation executes.
MODULES = (
    "scheduler/elementwise.py",
    "scheduler/job_queue.py",
    "scheduler/running_keys.py",
    "scheduler/evict/cost_aware.py",
    "scheduler/evict/protection.py",
    "simulator/claimed_work.py",
    "simulator/event_loop.py",
    "simulator/event_queue.py",
    "simulator/job_transitions.py",
    "simulator/placed_pool.py",
    "simulator/pool_allocator.py",
    "simulator/recorders.py",
    "simulator/simulated_job.py",
    "simulator/simulation.py",
    "simulator/work.py",
)
# The same, with formulas that are also compiled for one job (`one_job.py`).
FORMULAS = (
    "scheduler/estimates/age_buckets.py",
    "scheduler/estimates/charged_gpus.py",
    "scheduler/estimates/size_hazards.py",
    "scheduler/rank/adaptive.py",
    "scheduler/rank/completion_price.py",
    "scheduler/rank/las_order.py",
    "scheduler/rank/starve_limit.py",
    "scheduler/rank/waited_limits.py",
)
# The same; packages may derive from their classes, which therefore remain classes of Python with compiled methods.
POLICIES = ("policy", "adaptive", "fifo", "gittins", "las", "shortest_first")
CHECK = """
from pathlib import Path

from tiresias.copy_check import refuse

refuse(Path(__file__).parent, __version__)
"""
GROUP = "tiresias_compiled"  # the library with the code of all modules; each module's own one only names it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT", type=Path, help="folder for the copy; OUT/tiresias is replaced")
    parser.add_argument("--opt-level", choices="0123", default="3", help="of the C compiler; 0: soon built, for tests")
    options = parser.parse_args()
    out = options.out.resolve()
    copy(out)
    compile_in(out, options.opt_level)
    add_check(out / "tiresias")
    print(add_command(out))


def copy(out: Path) -> None:
    """Copy the sources. What is in OUT/tiresias is replaced."""
    package = out / "tiresias"
    shutil.rmtree(package, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    package.mkdir(parents=True)
    for file in (ROOT / "src/tiresias").glob("*.py*"):
        shutil.copy(file, package)
    for init in ROOT.glob("*/__init__.py"):
        shutil.copytree(init.parent, package / init.parent.name, ignore=ignored)
    shutil.copytree(ROOT / "etc", package / "share/etc", ignore=ignored)


def compile_in(out: Path, opt_level: str) -> None:
    """Compile MODULES and POLICIES of OUT/tiresias, each to a library beside its source."""
    policies = [f"scheduler/rank/{name}.py" for name in POLICIES]
    for policy in policies:
        keep_classes(out / "tiresias" / policy)
    add_versions(out, FORMULAS)
    modules = [f"tiresias/{module}" for module in sorted({*MODULES, *FORMULAS, *policies})]
    script = (
        "from mypyc.build import mypycify; from setuptools import setup; "
        f"setup(name='compiled', packages=[], ext_modules=mypycify(['--ignore-missing-imports', *{modules!r}], "
        f"group_name={GROUP!r}, opt_level={opt_level!r}), script_args=['-q', 'build_ext', '--inplace'])"
    )
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    done = subprocess.run([sys.executable, "-c", script], cwd=out, env=variables, check=False)
    shutil.rmtree(out / "build", ignore_errors=True)
    if done.returncode:
        sys.exit("compilation failed; are mypy[mypyc], setuptools and a C compiler installed?")


def add_check(package: Path) -> None:
    """Let the copy refuse to run where it is out of date."""
    shutil.copy(Path(__file__).with_name("copy_check.py"), package)
    write_notes(package, ROOT)
    with (package / "__init__.py").open("a") as file:
        file.write(CHECK)


def add_command(out: Path) -> Path:
    """Add OUT/bin/tiresias, which runs the copy with this Python."""
    command = out / "bin/tiresias"
    command.parent.mkdir(exist_ok=True)
    command.write_text(f'#!/bin/sh\nPYTHONPATH={quote(str(out))} exec {quote(sys.executable)} -m tiresias "$@"\n')
    command.chmod(0o755)
    return command


def keep_classes(file: Path) -> None:
    """Let mypyc compile the methods of the module's classes only."""
    text = file.read_text()
    text = re.sub(r"^(?=class \w+\((?!Protocol))", "@mypyc_attr(native_class=False)\n", text, flags=re.MULTILINE)
    imports = "from __future__ import annotations\n"
    file.write_text(text.replace(imports, imports + "from mypy_extensions import mypyc_attr\n", 1))


if __name__ == "__main__":
    main()
