"""Large packages imported when a test first uses them: each worker collects all tests, and runs a part of them."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import pytest


class _Lazy:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):  # pytest looks for some of these in all that a test module holds
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)


def imported(name: str, package: str = "") -> Any:
    """Return a stand-in for the module; skips the calling test module where the package that it needs is not installed.

    Args:
        name: the module.
        package: the package that the module needs; the module's own without it.
    """
    needed = package or name.partition(".")[0]
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed (make test installs it)", allow_module_level=True)
    return _Lazy(name)
