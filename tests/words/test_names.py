"""One name, one concept: no two classes of the packages have the same name, and two modules only as listed here."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checkout import require_git
from tests.words.shape import shape_of
from tests.words.trees import Tree, of_work_tree

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


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    require_git()
    return shape_of(of_work_tree())["packages"]


def test_no_two_classes_have_the_same_name(figures: dict[str, Any]) -> None:
    assert figures["class names used twice"] == {}


def test_modules_of_the_same_name_are_of_one_concept(figures: dict[str, Any]) -> None:
    found = figures["module names used twice"]
    assert {name: paths for name, paths in found.items() if name not in ALLOWED} == {}
    assert ALLOWED.keys() - found.keys() == set(), "allowed, and used once"


def test_a_name_used_twice_is_found() -> None:
    texts = {"wrappers/a/one.py": "class Two:\n    pass\n", "wrappers/b/one.py": "class Two:\n    pass\n"}
    figures = shape_of(Tree("a tree", texts))["packages"]
    assert figures["module names used twice"] == {"one": sorted(texts)}
    assert figures["class names used twice"] == {"Two": sorted(texts)}
