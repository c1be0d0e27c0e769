"""Curves in a terminal: each cell is a Braille character of 2 x 4 points, and has the style of the curve drawn last."""

from __future__ import annotations

import numpy as np
from rich.text import Text

from tiresias.scheduler.model import Floats
from tiresias.slurm_plugin.views.table_layout import FAINT

_BLANK = 0x2800
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])  # of a character, by line and column


class BraillePlot:
    """A plot of a given size.

    Args:
        width, height: In cells, without the axes.
        right: The largest x; the smallest is 0.
        low, high: The range of y.
    """

    def __init__(self, width: int, height: int, right: float, low: float, high: float) -> None:
        self._dots = np.zeros((height, width), np.int64)
        self._styles = np.zeros((height, width), np.int64)
        self._names = [""]
        self._right, self._low, self._high = max(right, 1e-300), low, high if high > low else low + 1.0

    def add(self, x: Floats, y: Floats, style: str) -> None:
        """Draw points; what is outside of the plot is left out."""
        height, width = self._dots.shape
        inside = (
            np.isfinite(x) & np.isfinite(y) & (x >= 0.0) & (x <= self._right) & (y >= self._low) & (y <= self._high)
        )
        across = np.minimum((x[inside] / self._right * 2 * width).astype(np.int64), 2 * width - 1)
        part = (self._high - y[inside]) / (self._high - self._low)
        down = np.minimum((part * 4 * height).astype(np.int64), 4 * height - 1)
        np.bitwise_or.at(self._dots, (down // 4, across // 2), _DOTS[down % 4, across % 2])
        self._names.append(style)
        self._styles[down // 4, across // 2] = len(self._names) - 1

    def lines(self, title: str) -> list[Text]:
        """Return the plot with its axes. title: of the x axis."""
        labels = {0: f"{self._high:.4g}", len(self._dots) - 1: f"{self._low:.4g}"}
        margin = max(len(text) for text in labels.values())
        rows = []
        for at, (dots, styles) in enumerate(zip(self._dots.tolist(), self._styles.tolist(), strict=True)):
            line = Text(f"{labels.get(at, ''):>{margin}} │", FAINT, no_wrap=True)
            for dot, style in zip(dots, styles, strict=True):
                line.append(chr(_BLANK + dot) if dot else " ", self._names[style])
            rows.append(line)
        width, end = self._dots.shape[1], f"{self._right:,.0f}"
        rows.append(Text(f"{'':>{margin}} └{'─' * width}", FAINT, no_wrap=True))
        rows.append(
            Text(
                f"{'':>{margin}}  0{title:^{max(width - len(end) - 1, 0)}.{max(width - len(end) - 1, 0)}}{end}",
                FAINT,
                no_wrap=True,
            )
        )
        return rows
