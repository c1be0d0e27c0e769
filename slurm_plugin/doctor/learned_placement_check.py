"""Whether placements use the learned interference and the trained network, by what the controller of this host publishes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tiresias.errors import TiresiasError
from tiresias.protocol.status import PublishedTable, PublishedWeights
from tiresias.scheduler.estimates.learned_interference import LEAST_SAMPLES
from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine
from tiresias.slurm_plugin.sockets.published_status import ask_screen

_TABLE, _WEIGHTS = "interference", "learned placement"
_REPORT = "let programs report their progress, and let jobs of a kind run both alone and beside others"
_TRAIN = 'tiresias placement train, or another placement.style such as "least_interference"'


def findings(run: Path) -> Iterator[Finding]:
    """Yield a finding for each, one where the controller does not answer, and nothing where none runs. run: paths.run."""
    if not (socket := run / "control.sock").exists():
        return
    try:
        status = ask_screen(socket, 1, 80)
    except TiresiasError as error:
        yield Finding(Level.ADVICE, _WEIGHTS, f"not known: {error}", "repeat the command once the controller answers")
        return
    if "interference" in status:
        yield interference(status["interference"])
    if "weights" in status:  # an older controller does not publish them
        yield weights(status["weights"])


def interference(table: PublishedTable | None) -> Finding:
    """Return whether placements use the learned interference. table: as published."""
    if table is None:
        return fine(_TABLE, "not learned: the style of placement does not use it")
    if table["error"] is None:
        words = f"not used: {table['samples']} timed runs beside jobs of one kind, and {LEAST_SAMPLES} are needed"
        return Finding(Level.ADVICE, _TABLE, f"{words}; no slowdown is expected", _REPORT)
    compared = f"mean error {table['error']:.1%} against {table['error_without']:.1%} of no interference"
    by = f"{compared}, by {table['samples']} timed runs"
    if not table["used"]:
        return fine(_TABLE, f"not used, as it does not surely predict slowdowns better: {by}; no slowdown is expected")
    return fine(_TABLE, f"used: {by}, kinds of jobs: {table['kinds']}")


def weights(found: PublishedWeights | None) -> Finding:
    """Return whether jobs are placed by the trained network. found: as published."""
    if found is None:
        return fine(_WEIGHTS, "not used: placement.style is not learned")
    if found["used"]:
        return fine(_WEIGHTS, f"used: weights {found['file']}")
    return Finding(Level.RISK, _WEIGHTS, f"not used, jobs are placed by least_interference: {found['why']}", _TRAIN)
