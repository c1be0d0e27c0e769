"""mypy and pyright resolve the namespace over the top-level folders: each finds a planted error in each folder.

The tree has the layout and the configuration of this one: its links in src, its pyproject.toml, and two files in each folder, one
with a function, the other with its result under a wrong type.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMESPACE = ROOT / "src/tiresias"
LINKS = sorted(path for path in NAMESPACE.iterdir() if path.is_symlink())
FOLDERS = [path.name for path in LINKS]
RIGHT = "def number() -> int:\n    return 1\n"
WRONG = "from tiresias.{folder}.right import number\n\nanswer: int = number()\nwrong: str = number()\n"
LINE = 4  # of the error


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    (root / "src/tiresias").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "tests/test_nothing.py").write_text("")
    shutil.copy(ROOT / "pyproject.toml", root)
    for file in ("__init__.py", "py.typed"):
        shutil.copy(NAMESPACE / file, root / "src/tiresias")
    for link in LINKS:
        folder = root / link.name
        folder.mkdir()
        (root / "src/tiresias" / link.name).symlink_to(link.readlink())
        (folder / "__init__.py").write_text("")
        (folder / "right.py").write_text(RIGHT)
        (folder / "planted.py").write_text(WRONG.format(folder=link.name))
    return root


def run(tree: Path, *words: str) -> str:
    done = subprocess.run(words, cwd=tree, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_every_folder_is_linked() -> None:
    assert sorted(path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file()) == FOLDERS


@pytest.mark.slow
def test_mypy_finds_the_error_in_each_folder(tree: Path) -> None:
    text = run(tree, sys.executable, "-m", "mypy", "-p", "tiresias", "--cache-dir", str(tree / "cache"))
    found = [line for line in text.splitlines() if "Incompatible types in assignment" in line]
    assert [line.partition(": ")[0] for line in sorted(found)] == [
        f"src/tiresias/{folder}/planted.py:{LINE}" for folder in FOLDERS
    ]
    assert f"Found {len(FOLDERS)} errors in {len(FOLDERS)} files" in text


@pytest.mark.slow
def test_pyright_finds_the_error_in_each_folder(tree: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    pyright = shutil.which("pyright", path=path) or shutil.which("basedpyright", path=path)
    if pyright is None:
        pytest.skip("neither pyright nor basedpyright is installed: pip install basedpyright")
    everything = json.loads(run(tree, pyright, "--outputjson"))["generalDiagnostics"]
    found = [one for one in everything if one["severity"] == "error"]  # basedpyright has warnings of its own
    assert {one["rule"] for one in found} == {"reportAssignmentType"}
    places = sorted((Path(one["file"]).relative_to(tree).parts, one["range"]["start"]["line"]) for one in found)
    assert places == [((folder, "planted.py"), LINE - 1) for folder in FOLDERS]
