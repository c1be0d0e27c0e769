"""Draws docs/architecture.svg, the figure of the README: python docs/architecture_figure.py [FILE]

Each box names the folders that its program comes from. A folder of the import namespace that no box names is an error, so
that the figure changes with the tree; tests/docs/test_architecture_figure.py compares the stored file with a new one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
WIDTH, HEIGHT = 940, 600
LINE_HEIGHT = 19
STYLE = (
    "text{font:14px system-ui,sans-serif;fill:#1f2933}.title{font-weight:600}.folder{font:13px monospace;fill:#0b5394}"
    ".note{font-size:13px;fill:#52606d}rect{stroke:#9aa5b1;rx:8}path{stroke:#52606d;stroke-width:1.6;fill:none}"
)


class Box(NamedTuple):
    """One program or place.

    Attributes:
        left, top, width, height: The rectangle, in pixels.
        colour: Its fill.
        title: What it is called.
        folders: The folders that it comes from, without the trailing slash.
        notes: One line of text each.
    """

    left: int
    top: int
    width: int
    height: int
    colour: str
    title: str
    folders: tuple[str, ...]
    notes: tuple[str, ...]


class Arrow(NamedTuple):
    """A call or a file access, from one point to another, and its label."""

    start: tuple[int, int]
    end: tuple[int, int]
    label: str
    label_at: tuple[int, int]


TIRESIAS, SLURM, FILES = "#e8f1fb", "#fdf3d7", "#eef2ee"
BOXES = (
    Box(20, 20, 230, 96, TIRESIAS, "tsbatch, tsrun", ("wrappers",), ("take sbatch's and srun's options",)),
    Box(345, 20, 230, 96, SLURM, "Slurm", (), ("slurmctld starts, holds,", "signals and requeues jobs")),
    Box(670, 20, 230, 96, TIRESIAS, "Supervisor", ("wrappers",), ("runs the batch script,", "verifies checkpoints")),
    Box(
        345,
        215,
        230,
        155,
        TIRESIAS,
        "Controller",
        ("slurm_plugin", "durable"),
        ("observe, decide, act, publish;", "its journal is on the disk"),
    ),
    Box(361, 284, 198, 38, "#ffffff", "decide", ("scheduler",), ()),
    Box(20, 215, 230, 155, TIRESIAS, "Simulator", ("simulator",), ("replays traces with", "the same decide")),
    Box(
        670,
        215,
        230,
        155,
        TIRESIAS,
        "Training program",
        ("checkpoint", "profiler"),
        ("saves when requested;", "its traffic is recorded"),
    ),
    Box(
        345,
        405,
        515,
        80,
        FILES,
        "Shared file system",
        ("protocol",),
        ("control folders: reports of jobs, stop requests;", "checkpoints"),
    ),
    Box(
        510,
        505,
        390,
        80,
        TIRESIAS,
        "Parameter service, remote memory",
        ("services",),
        ("holds the parameters of several jobs;", "swap on idle memory of other nodes"),
    ),
    Box(20, 405, 230, 80, TIRESIAS, "Private Slurm cluster", ("sandbox",), ("for the demo and the tests",)),
)

ARROWS = (
    Arrow((250, 68), (341, 68), "sbatch", (273, 60)),
    Arrow((575, 68), (666, 68), "starts", (600, 60)),
    Arrow((460, 215), (460, 120), "hold, release, signal, requeue", (470, 172)),
    Arrow((785, 116), (785, 211), "checkpoint signal", (795, 172)),
    Arrow((250, 303), (357, 303), "same code", (268, 295)),
    Arrow((460, 405), (460, 374), "reads reports", (470, 393)),
    Arrow((785, 370), (785, 401), "saves, reports", (690, 390)),
    Arrow((880, 370), (880, 501), "parameters, pages", (742, 499)),
)


def main() -> None:
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("architecture.svg")
    file.write_text(svg(), encoding="utf-8")


def svg() -> str:
    """Return the figure of the present tree.

    Raises:
        SystemExit: A folder of the import namespace is in no box.
    """
    present = folders()
    if missing := present - {name for box in BOXES for name in box.folders}:
        raise SystemExit(f"{Path(__file__).name}: no box names the folders {', '.join(sorted(missing))}")
    lines = [line for box in BOXES for line in _box(box, present)]
    lines += [line for arrow in ARROWS for line in _arrow(arrow)]
    return "\n".join([_head(), *lines, "</svg>", ""])


def folders() -> set[str]:
    """Return the folders of the import namespace: what src/tiresias links to."""
    return {link.name for link in (ROOT / "src/tiresias").iterdir() if link.is_symlink()}


def _head() -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">\n'
        f"<title>How the parts of Tiresias communicate</title>\n<style>{STYLE}</style>\n"
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0L10,5L0,10z" style="fill:#52606d;stroke:none"/></marker></defs>\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" style="fill:#ffffff;stroke:none;rx:0"/>'
    )


def _box(box: Box, present: set[str]) -> list[str]:
    named = " ".join(f"{name}/" for name in box.folders if name in present)
    top = box.top + 24
    lines = [
        f'<rect x="{box.left}" y="{box.top}" width="{box.width}" height="{box.height}" fill="{box.colour}"/>',
        _text(box.left + 12, top, "title", box.title),
    ]
    if named:
        lines.append(_text(box.left + box.width - 12, box.top + box.height - 12, "folder", named, end=True))
    return lines + [_text(box.left + 12, top + LINE_HEIGHT * at, "note", note) for at, note in enumerate(box.notes, 1)]


def _arrow(arrow: Arrow) -> list[str]:
    (x, y), (to_x, to_y) = arrow.start, arrow.end
    return [
        f'<path d="M{x},{y}L{to_x},{to_y}" marker-end="url(#tip)"/>',
        _text(*arrow.label_at, "note", arrow.label),
    ]


def _text(x: int, y: int, kind: str, text: str, end: bool = False) -> str:
    anchor = ' text-anchor="end"' if end else ""
    return f'<text x="{x}" y="{y}" class="{kind}"{anchor}>{escape(text)}</text>'


if __name__ == "__main__":
    main()
