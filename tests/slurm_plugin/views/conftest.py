"""The published dictionary of tests/example_status.py."""

from __future__ import annotations

from typing import Any

import pytest
from example_status import example_status


@pytest.fixture
def status() -> dict[str, Any]:
    return example_status()
