"""The page of ten reasons of waiting shows what a private cluster shows now."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
VARIES = (  # what differs between two runs
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|\b(\w{3} \d+ )?\d\d:\d\d(:\d\d)?\b", "TIME"),
    (r"\b\d+(st|nd|rd|th)\b", "PLACE"),
    (r"\b(\d+[dhms])+\b", "SPAN"),
    (r"\b\d+(\.\d+)?", "N"),
    (r"\s+", " "),
)


def alike(text: str) -> str:
    for pattern, instead in VARIES:
        text = re.sub(pattern, instead, text)
    return text


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.long
def test_the_page_is_what_a_cluster_shows() -> None:
    spec = importlib.util.spec_from_file_location("waiting_examples", DOCS / "waiting_examples.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert alike(module.page()) == alike((DOCS / "reference/waiting-examples.md").read_text())


def test_a_different_reason_is_found() -> None:
    line = "7 bob PD (JobHeldAdmin) Tiresias: 1st of 5; needs 4 GPUs; about 30 min (estimate)"
    assert alike(line) == alike(line.replace("5", "6").replace("  ", " "))
    assert alike(line) != alike(line.replace("JobHeldAdmin", "Licenses"))
    assert alike(line) != alike(line.replace("; about 30 min (estimate)", ""))
