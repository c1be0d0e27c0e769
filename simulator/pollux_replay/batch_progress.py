"""How many steps a training takes with another batch: measured trainings with several batches, and the noise of their gradients.

A step with a larger batch makes more progress, but less than in proportion: 1 / (f + (1 - f) / r) times that of a step with the
first batch, where r is the ratio of the batches, and f = s / (s + v) with the squared norm s and the variance v of the gradient
(Pollux, section 3.1).
A file has the columns model,batch_size,epoch,iteration,progress,metric,grad_sqr,grad_var, one row for each epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tiresias.scheduler.model import Floats
from tiresias.simulator.formats import cells
from tiresias.simulator.formats.table import Layout, read_table
from tiresias.simulator.formats.trace_file import opened


def _squares(cells: Sequence[str]) -> Floats:
    """Return squares of gradients, which may be larger than other numbers of a table."""
    values = np.fromiter(map(float, cells), np.float64, len(cells))
    if not (np.isfinite(values) & (values >= 0)).all():
        raise ValueError("is not possible; write a number, 0 or more, or remove the model")
    return values


_NUMBERS = {
    **dict.fromkeys(("batch_size", "epoch", "progress"), cells.numbers),
    **dict.fromkeys(("grad_sqr", "grad_var"), _squares),
}
_LAYOUT = Layout(numbers=_NUMBERS, words={"model": cells.words})


@dataclass(frozen=True, slots=True, eq=False)
class BatchProgress:
    """The trainings of one model.

    Attributes:
        batches: Batch sizes, rising, shape (batches,).
        progress: Progress in each epoch, in steps with the first batch, shape (epochs,).
        signal: The part f of the squared norm in the second moment of the first batch's gradient, shape (batches, epochs).
    """

    batches: Floats
    progress: Floats
    signal: Floats

    def steps(self, batch: float) -> float:
        """Return the steps of a whole training with a batch; one beyond the measured batches is taken as the nearest of them."""
        batch = float(np.clip(batch, self.batches[0], self.batches[-1]))
        ratio = batch / self.batches[0]
        signal = np.array([np.interp(batch, self.batches, epoch) for epoch in self.signal.T])
        return float(self.progress @ (signal + (1.0 - signal) / ratio))


def read_batch_progress(file: Path) -> dict[str, BatchProgress]:
    """Return the trainings by model. An epoch that not all batches have is left out.

    Raises:
        UsageError: The file cannot be read, or is no such table.
    """
    with opened(file, lambda rows: None) as source:
        table = read_table(source, _LAYOUT)
    models, columns = np.array(table.words["model"]), np.stack([table.numbers[name] for name in _NUMBERS], axis=1)
    return {str(model): _of_model(columns[models == model]) for model in np.unique(models)}


def _of_model(rows: Floats) -> BatchProgress:
    batches = np.unique(rows[:, 0])
    curves = [rows[rows[:, 0] == batch] for batch in batches]
    curves = [curve[np.argsort(curve[:, 1])] for curve in curves]
    epochs = min(map(len, curves))
    reached = np.min([curve[:epochs, 2] for curve in curves], axis=0)
    signal = np.array([_signal(*curve[:epochs, 3:].T) for curve in curves])
    return BatchProgress(batches, np.diff(reached, prepend=0.0), signal)


def _signal(norm: Floats, variance: Floats) -> Floats:
    """Return the part of the squared norm in the second moment of gradients; 1 where both are 0."""
    both = norm + variance
    return np.where(both > 0.0, norm / np.where(both > 0.0, both, 1.0), 1.0)
