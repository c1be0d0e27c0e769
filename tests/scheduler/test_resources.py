"""Named columns of amounts."""

from __future__ import annotations

import numpy as np
import pytest

from tiresias.scheduler.resources import Resources, joined


def test_columns_by_name() -> None:
    found = Resources.of([4, 2], [16, 8], [1e5, 2e5], islands=[[2, 2], [1, 1]])
    assert list(found) == ["gpus", "cpus", "memory", "island0", "island1"]
    assert len(found) == 5
    assert found["gpus"].tolist() == [4, 2]
    assert found["island1"].tolist() == [2, 1]
    assert found.islands.tolist() == [[2, 2], [1, 1]]
    assert Resources.of([4], [1], [1]).islands.shape == (1, 0)


def test_a_name_that_is_no_column() -> None:
    found = Resources.of([4], [16], [1e5])
    assert "licenses" not in found
    with pytest.raises(KeyError, match="licenses"):
        found["licenses"]


def test_a_column_is_a_view() -> None:
    """A column of 16,000 nodes is read without a copy."""
    found = Resources.of([4, 2], [16, 8], [1e5, 2e5])
    assert np.shares_memory(found["cpus"], found.amount)


def test_rows_and_parts() -> None:
    found = Resources.of([4, 2, 1], [0, 0, 0], [0, 0, 0])
    assert found.rows(np.array([2, 0]))["gpus"].tolist() == [1, 4]
    assert joined([found.rows(np.array([1])), found])["gpus"].tolist() == [2, 4, 2, 1]
    assert found.with_islands([[1], [2], [3]]).with_islands([[7], [8], [9]]).islands.ravel().tolist() == [7, 8, 9]
