"""One name, one concept: no two classes of the packages have the same name, and two modules only as listed here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent
# module name -> why one concept has it several times
ALLOWED = {
    "controller": "the command, and the class that it runs",
    "explain": "the command and its view",
    "history": "the command and its view",
    "ledger": "the command, and the ledger that it compares with Slurm's accounting",
    "metrics": "the command and its view",
    "replay": "the command, and the replay that it runs",
    "simulate": "the command and its view",
    "status": "the published status, the command that shows it and its view; the same command of the private cluster",
    "whatif": "the command and its view",
}


def loaded(name: str) -> ModuleType:
    """Load one of the files beside this one, which import each other by their names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))
        spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


trees, shape = loaded("trees"), loaded("shape")
FIGURES = shape.shape_of(trees.of_work_tree())["packages"]


def test_no_two_classes_have_the_same_name() -> None:
    assert FIGURES["class names used twice"] == {}


def test_modules_of_the_same_name_are_of_one_concept() -> None:
    found = FIGURES["module names used twice"]
    assert {name: paths for name, paths in found.items() if name not in ALLOWED} == {}
    assert ALLOWED.keys() - found.keys() == set(), "allowed, and used once"


def test_a_name_used_twice_is_found() -> None:
    texts = {"wrappers/a/one.py": "class Two:\n    pass\n", "wrappers/b/one.py": "class Two:\n    pass\n"}
    figures = shape.shape_of(trees.Tree("a tree", texts))["packages"]
    assert figures["module names used twice"] == {"one": sorted(texts)}
    assert figures["class names used twice"] == {"Two": sorted(texts)}
