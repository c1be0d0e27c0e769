"""The README's figure is drawn from the present folders."""

from __future__ import annotations

import importlib.util
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def figure() -> ModuleType:
    spec = importlib.util.spec_from_file_location("architecture_figure", DOCS / "architecture_figure.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["architecture_figure"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_stored_figure_is_the_one_that_the_script_draws(figure: ModuleType) -> None:
    assert (DOCS / "architecture.svg").read_text() == figure.svg(), "run: python docs/architecture_figure.py"


def test_every_folder_is_in_a_box(figure: ModuleType) -> None:
    texts = " ".join(element.text or "" for element in ET.fromstring(figure.svg()).iter())
    assert [name for name in sorted(figure.folders()) if f"{name}/" not in texts] == []


def test_a_folder_without_a_box_is_reported(figure: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure, "folders", lambda: {"scheduler", "weather"})
    with pytest.raises(SystemExit, match="no box names the folders weather"):
        figure.svg()
