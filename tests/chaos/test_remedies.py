"""What a campaign has broken is mended once, whatever happens meanwhile."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from tests.chaos.process_troubles import put_back
from tests.chaos.remedies import Remedies
from tests.chaos.scene import Scene
from tiresias.errors import Unavailable, UsageError


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10.0
    while not condition():
        assert time.monotonic() < deadline


def remedies() -> Remedies:
    """Of no scene: what is called here does not use it."""
    return Remedies(cast(Scene, None), 1, lambda _: None)


def test_a_folder_is_put_back_while_programs_make_it_again(tmp_path: Path) -> None:
    here, away, over = tmp_path / "control", tmp_path / "control.away", threading.Event()
    (here / "7" / "mine").mkdir(parents=True)

    def make() -> None:
        while not over.is_set():
            with contextlib.suppress(OSError):  # its folder was moved between two calls
                (here / "7" / "new").mkdir(parents=True, exist_ok=True)

    program = threading.Thread(target=make)
    program.start()
    try:
        for _ in range(50):
            here.rename(away)
            until(here.exists)
            put_back(away, here, shutil.rmtree)
            assert (here / "7" / "mine").is_dir()
            assert [each.name for each in tmp_path.iterdir()] == ["control"]
    finally:
        over.set()
        program.join()


def test_a_folder_is_put_back_where_none_was_made(tmp_path: Path) -> None:
    (tmp_path / "away" / "7").mkdir(parents=True)
    put_back(tmp_path / "away", tmp_path / "here", shutil.rmtree)
    assert [each.name for each in (tmp_path / "here").iterdir()] == ["7"]


def test_what_is_not_mended_yet_is_not_broken_again() -> None:
    troubles, answers = remedies(), [Unavailable("slurmctld does not answer"), OSError("Directory not empty")]

    def mend() -> None:
        if answers:
            raise answers.pop(0)

    assert troubles._breaks("control")
    troubles._mend_later(0.0, "control", mend)
    for _ in range(2):
        troubles.remedy_what_is_due(all_of_it=True)
        assert not troubles._breaks("control")
    troubles.remedy_what_is_due(all_of_it=True)
    assert troubles._breaks("control")


@pytest.mark.parametrize("words", ["Invalid node state specified", "slurm_update error: Invalid node state specified"])
def test_a_node_that_is_up_already_needs_no_remedy(words: str) -> None:
    troubles = remedies()

    def mend() -> None:
        raise UsageError(words)

    assert troubles._breaks("gpu01")
    troubles._mend_later(0.0, "gpu01", mend, "node gpu01")
    troubles.remedy_what_is_due(all_of_it=True)
    assert troubles._breaks("gpu01")
    assert not troubles._is_due_later("node gpu01")
