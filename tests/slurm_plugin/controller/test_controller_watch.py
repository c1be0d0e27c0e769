"""The live view on a controller that schedules jobs on a real Slurm."""

from __future__ import annotations

import os
import sys
import time

import pytest

from tests.pseudo_terminal import Terminal
from tests.slurm_plugin.controller.centre import Centre

pytestmark = pytest.mark.sandbox


def test_an_administrator_watches_and_pauses(centre: Centre) -> None:
    began = time.time()
    large = centre.train(gpus=16, seconds=60)
    centre.wait_until_preemptable(large)
    centre.wait_for_state(centre.submit(command="sleep 1", user="bob"), "COMPLETED")
    centre.wait_until(lambda: centre.published(large).get("checkpoint_time"), "its checkpoint is not published", large)
    assert began <= centre.published(large)["checkpoint_time"] <= time.time()
    assert centre.published(large)["placement"] == "consolidate"
    socket = centre.root / "run/tiresias/control.sock"
    words = [sys.executable, "-m", "tiresias", "status", "--watch", "--admin", "--socket", str(socket)]
    live = Terminal(words, {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}, (120, 40))
    try:
        live.shows("exact", "alice", "running", "? keys")
        live.press(b"/" + large.encode() + b"\r\r")
        live.shows(f"explain {large}", "preempted     1 times", "alice, partition gpu")
        live.press(b"qp")
        live.shows("Pause new preemptions?")
        live.press(b"y")
        live.shows("are paused", "paused by root")
        assert centre.status()["paused"]["by"] == "root"
        live.press(b"u")
        live.shows("End the pause")
        live.press(b"y")
        centre.wait_until(lambda: centre.status()["paused"] is None, "the pause does not end")
        live.press(b"q")
        assert live.process.wait(10) == 0
    finally:
        live.close()
