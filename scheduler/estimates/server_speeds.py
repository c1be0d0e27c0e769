"""The speed model of a job with parameter servers: synchronous or asynchronous (Optimus, EuroSys '18, equations 4 and 3). Pure."""

from __future__ import annotations

from tiresias.scheduler.estimates import speed_model
from tiresias.scheduler.estimates.speed_forms import ASYNCHRONOUS, SYNCHRONOUS, SpeedForm
from tiresias.scheduler.estimates.speed_model import SpeedModel

SIZES_COMPARED = 3  # different ones from which on the measured speeds show the form
CLEARLY_BETTER = 4.0  # squared standard deviations by which the asynchronous form must be nearer

Points = list[tuple[float, ...]]


def server_model(own: Points, alike: Points, is_asynchronous: bool | None = None) -> SpeedModel:
    """Return the speed model of a job with servers: as stated, else asynchronous where that form is clearly nearer.

    Args:
        own: Points of the job (servers, workers, batch, steps a second). A step is one of all workers together, of asynchronous
            training one of any worker.
        alike: Those of other jobs of its kind.
        is_asynchronous: How it trains; None: not stated.
    """
    if is_asynchronous is not None:
        return _fitted(own, alike, ASYNCHRONOUS if is_asynchronous else SYNCHRONOUS)
    asynchronous, synchronous = (_fitted(own, alike, form) for form in (ASYNCHRONOUS, SYNCHRONOUS))
    is_shown = len({point[:2] for point in (*own, *alike)}) >= SIZES_COMPARED
    return asynchronous if is_shown and asynchronous.loss < synchronous.loss - CLEARLY_BETTER else synchronous


def _fitted(own: Points, alike: Points, form: SpeedForm) -> SpeedModel:
    return speed_model.fit(own, form, prior=speed_model.fit(alike, form) if alike else None)
