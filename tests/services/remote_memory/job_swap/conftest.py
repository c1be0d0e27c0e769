"""`node`: what a test of a job's swap uses; skipped where the machine lacks a part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services.remote_memory.job_swap.swap_node import SwapNode, missing


@pytest.fixture
def node_of(tmp_path: Path) -> Iterator[Callable[..., SwapNode]]:
    """Returns a node with options of its configuration."""
    if reason := missing():
        pytest.skip(reason)
    nodes: list[SwapNode] = []

    def node(**options: Any) -> SwapNode:
        nodes.append(SwapNode(tmp_path, **options))
        return nodes[-1]

    yield node
    for each in nodes:
        each.close()


@pytest.fixture
def node(node_of: Callable[..., SwapNode]) -> SwapNode:
    """A node with the default configuration."""
    return node_of()
