"""CONTRIBUTING.md names files that exist, and the version is the same everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tiresias import __version__

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
# `scheduler/rank/`, `docs/reference/policies.md`; NAME stands for a name that the reader chooses
PATHS = sorted({path for path in re.findall(r"`([\w.-]+/[\w./-]*)`", PAGE) if "NAME" not in path})


def test_paths_are_found() -> None:
    assert len(PATHS) > 30


@pytest.mark.parametrize("path", PATHS)
def test_a_path_exists(path: str) -> None:
    below = [ROOT, *(ROOT / folder for folder in ("scheduler", "simulator", "slurm_plugin"))]
    assert any((folder / path).exists() for folder in below), f"CONTRIBUTING.md names {path}"


def test_the_files_of_the_architecture_page_exist() -> None:
    """Each file name in a row of its table of folders, below the folder of the row."""
    rows = re.findall(
        r"^\| `(\w+)[^|]*\| (.*) \|$", (ROOT / "docs/explanation/architecture.md").read_text(), re.MULTILINE
    )
    named = [(folder, file) for folder, text in rows for file in re.findall(r"\b\w+\.py\b", text)]
    assert len(named) > 50
    assert [f"{folder}: {file}" for folder, file in named if not any((ROOT / folder).rglob(file))] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_lead_to_files(page: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / page).read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_citation_names_the_version() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
