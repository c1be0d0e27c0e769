"""When a training ends whose number of steps is not known: its loss is low enough, or it has converged (Optimus, section 3.1).

The program states it (`Checkpointer.converges`), and the progress report has it as an object (progress.py):

    {"loss": 3.28}                                          the loss has fallen to 3.28
    {"threshold": 0.01, "epoch_steps": 500, "epochs": 3}    in each of three epochs it has fallen by less than 1% of its maximum

Standard library only.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import NamedTuple

MOST_EPOCHS = 1000
MOST_STEPS = 1e12  # of an epoch
LARGEST_LOSS = 1e30


class Convergence(NamedTuple):
    """The owner's criterion; either a loss or the other three.

    Attributes:
        loss: The loss at which the training ends; None: it ends when the loss does not fall any more.
        threshold: The loss falls by less than this part of its maximum in an epoch.
        epoch_steps: Steps of an epoch.
        epochs: In so many epochs, one after the other.
    """

    loss: float | None = None
    threshold: float = 0.0
    epoch_steps: float = 0.0
    epochs: int = 1

    def stated(self) -> dict[str, float]:
        """Return the object of a report."""
        if self.loss is not None:
            return {"loss": self.loss}
        return {"threshold": self.threshold, "epoch_steps": self.epoch_steps, "epochs": self.epochs}


@lru_cache(maxsize=1024)
def as_text(stated: Convergence | None) -> str:
    """Return the criterion as JSON; "" for none."""
    return json.dumps(stated.stated()) if stated else ""


def of_text(text: str) -> Convergence | None:
    """Return the criterion of a text by `as_text`."""
    return read(json.loads(text)) if text else None


def read(value: object) -> Convergence | None:
    """Return the criterion in an object of a report; None where it states none, or an impossible one."""
    if not isinstance(value, dict):
        return None
    if "loss" in value:
        loss = _number(value["loss"])
        return Convergence(loss) if 0.0 <= loss <= LARGEST_LOSS else None
    threshold, epoch, epochs = (_number(value.get(name)) for name in ("threshold", "epoch_steps", "epochs"))
    if not (0.0 < threshold < 1.0 and 1.0 <= epoch <= MOST_STEPS and 1.0 <= epochs <= MOST_EPOCHS):
        return None
    return Convergence(None, threshold, epoch, int(epochs))


def _number(value: object) -> float:
    """Return the value where it is a finite number, else nan."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        number = float(value)
    except OverflowError:
        return math.nan
    return number if math.isfinite(number) else math.nan
