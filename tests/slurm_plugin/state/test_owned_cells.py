"""The cells of a job as text in the journal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tiresias.scheduler.model import Start
from tiresias.slurm_plugin.state import owned_cells

NAMES = st.text("abz019-.", min_size=1, max_size=8)
TYPES = st.text("abz#.0", min_size=1, max_size=8)


@given(held=st.dictionaries(NAMES, TYPES))
def test_what_is_written_is_read(held: dict[str, str]) -> None:
    assert owned_cells.read(owned_cells.written(held, tuple(held.values()))) == held


def test_a_job_without_cells_has_no_text() -> None:
    assert owned_cells.of_start(Start("1", (("gpu01", 4),))) == ""
    assert owned_cells.read("") == {}


def test_a_start_has_a_type_for_each_node() -> None:
    start = Start("1", (("gpu01", 4), ("gpu02", 2)), ("leaf#2", "node"))
    assert owned_cells.of_start(start) == "gpu01=leaf#2,gpu02=node"
