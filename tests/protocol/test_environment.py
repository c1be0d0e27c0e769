"""Each variable of the programs, of the files for administrators and of the manual is one that protocol/environment.py declares."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from tests.checkout import SOURCE_FOLDERS, require_git
from tiresias.protocol import environment
from tiresias.slurm_plugin.config import options

ROOT = Path(__file__).parents[2]
NAMES = {each.name for each in environment.VARIABLES}
OPTIONS = {option.variable for option in options().values()}
HEADER_GUARD = re.compile("TIRESIAS_[A-Z_]+_H")
USED_IN = (*SOURCE_FOLDERS, "docs", "etc", "hatch_build.py", "README.md", "CONTRIBUTING.md")


def files(*places: str) -> list[Path]:
    require_git()
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *places]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def mentioned(text: str) -> set[str]:
    """The names in a text; a name that ends with an underscore or a star is the beginning of several."""
    return set(re.findall(r"\b(?:SLURM_)?TIRESIAS(?:_[A-Z]+)+\b(?!_|\*)", text))


def literals(file: Path) -> set[str]:
    nodes = ast.walk(ast.parse(file.read_text()))
    strings = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {one for one in strings if one in NAMES | OPTIONS}


def test_names_are_different_and_documented() -> None:
    assert len(NAMES) == len(environment.VARIABLES) > 25
    idle = {name for name in NAMES if name.startswith("TIRESIAS_IDLE_GPUS_")}
    both_sides = {environment.PLACEMENT_BANDWIDTH, environment.PLACEMENT_PACKLIMIT, *idle}
    assert both_sides == NAMES & OPTIONS
    for each in environment.VARIABLES:
        assert all(each), each


def test_the_variable_of_an_option() -> None:
    assert environment.of_option("policy.min_run") == "TIRESIAS_POLICY_MIN_RUN"
    assert options()["policy.min_run"].variable == "TIRESIAS_POLICY_MIN_RUN"


@pytest.mark.parametrize("folder", SOURCE_FOLDERS)
def test_code_takes_the_names_from_one_place(folder: str) -> None:
    found = {str(file.relative_to(ROOT)): literals(file) for file in files(folder) if file.suffix == ".py"}
    found.pop("protocol/environment.py", None)
    assert {name: names for name, names in found.items() if names} == {}


def test_a_literal_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        'import os\nos.environ["TIRESIAS_CONTROL"], "other TIRESIAS_CONTROL", TIRESIAS_SIGNAL\n'
    )
    assert literals(tmp_path / "a.py") == {"TIRESIAS_CONTROL"}


def test_every_mentioned_variable_is_declared() -> None:
    unknown = {}
    for file in files(*USED_IN):
        names = mentioned(file.read_text(errors="replace")) - NAMES - OPTIONS
        unknown[str(file.relative_to(ROOT))] = {name for name in names if not HEADER_GUARD.fullmatch(name)}
    assert {name: names for name, names in unknown.items() if names} == {}


def test_every_declared_variable_is_mentioned_outside_of_the_declaration() -> None:
    """In a program of another language or a page; else by its constant in a module."""
    texts = [file.read_text(errors="replace") for file in files(*USED_IN) if file.name != "environment.py"]
    constants = {
        name: str(value) for name, value in vars(environment).items() if isinstance(value, environment.Variable)
    }
    for constant, name in constants.items():
        use = re.compile(rf"\b(environment|variables)\.{constant}\b|\b{name}\b(?!_)|import .*\b{constant}\b")
        assert any(use.search(text) for text in texts), f"{name} is used nowhere"


def test_the_page_has_a_row_for_each() -> None:
    spec = importlib.util.spec_from_file_location("environment_page", ROOT / "docs/environment_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows = [line.split(" | ") for text in module.lines() for line in text.splitlines() if line.startswith("| `")]
    assert {row[0].strip("| `") for row in rows} == NAMES
    assert all(len(row) == 4 for row in rows)
