#!/usr/bin/env python3
"""Makes a film for the manual of a recording: python docs/film.py RECORDING FOLDER [--frames SECONDS ...]

FOLDER/live.cast: the same recording, one screen a second and of it only the cells that changed, a tenth as large.
FOLDER/live-1.svg, live-2.svg, ...: frames at these moments. `make demo-live` runs it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pyte
from pyte.screens import Char
from rich.color import ColorSystem
from rich.style import Style
from rich.text import Text

from tiresias.slurm_plugin.views.svg_rendering import as_svg

EVERY = 1.0  # seconds between two screens of the film
FRAMES = (12.0, 42.0, 120.0)  # seconds
CLEAR = "\x1b[0m\x1b[2J\x1b[?25l"
Event = tuple[float, str, str]  # seconds, kind, content
Cells = list[list[Char]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording", type=Path, metavar="RECORDING")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--frames", type=float, nargs="*", default=FRAMES, metavar="SECONDS", help="default: %(default)s"
    )
    args = parser.parse_args()
    header, events = read(args.recording)
    film = [json.dumps(event, ensure_ascii=False) for event in filmed(header, events)]
    (args.folder / "live.cast").write_text("\n".join([json.dumps(header), *film, ""]), encoding="utf-8")
    for number, moment in enumerate(args.frames, 1):
        (args.folder / f"live-{number}.svg").write_text(frame(header, events, moment), encoding="utf-8")


def read(file: Path) -> tuple[dict[str, Any], list[Event]]:
    header, *events = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return header, [tuple(event) for event in events]


def screens(header: dict[str, Any], events: Sequence[Event], every: float) -> Iterator[tuple[float, Cells]]:
    """What the screen showed at each multiple of `every` seconds, and at the end."""
    screen = pyte.Screen(header["width"], header["height"])
    stream, shown = pyte.Stream(screen), 0.0
    for moment, kind, content in events:
        while moment > shown + every:
            shown += every
            yield shown, cells(screen)
        if kind == "r":
            columns, lines = map(int, content.split("x"))
            screen.resize(lines, columns)
        else:
            stream.feed(content)
    yield shown + every, cells(screen)


def cells(screen: pyte.Screen) -> Cells:
    return [[screen.buffer[y][x] for x in range(screen.columns)] for y in range(screen.lines)]


def filmed(header: dict[str, Any], events: Sequence[Event]) -> Iterator[Event]:
    before: Cells = []
    for moment, now in screens(header, events, EVERY):
        if not before or size(before) != size(now):
            if before:
                yield moment, "r", "{}x{}".format(*size(now))
            before = [[Char(" ")] * len(line) for line in now]
            yield moment, "o", CLEAR
        if drawn := changes(before, now):
            yield moment, "o", drawn
        before = now


def size(cells: Cells) -> tuple[int, int]:
    return len(cells[0]), len(cells)


def changes(before: Cells, now: Cells) -> str:
    """Return the output that changes one screen into the other."""
    found = []
    for y, (old, new) in enumerate(zip(before, now, strict=True)):
        changed = [x for x in range(len(new)) if old[x] != new[x]]
        for _, run in groupby(enumerate(changed), lambda pair: pair[1] - pair[0]):  # x that follow one another
            columns = [x for _, x in run]
            found.append(f"\x1b[{y + 1};{columns[0] + 1}H{ansi([new[x] for x in columns])}")
    return "".join(found)


def ansi(run: Sequence[Char]) -> str:
    return "".join(style.render(text, color_system=ColorSystem.TRUECOLOR) for style, text in spans(run))


def spans(run: Sequence[Char]) -> Iterator[tuple[Style, str]]:
    """Neighbours of one style. The second cell of a wide character is empty."""
    for style, same in groupby(run, style_of):
        yield style, "".join(cell.data for cell in same)


def style_of(cell: Char) -> Style:
    return Style(
        color=color(cell.fg),
        bgcolor=color(cell.bg),
        bold=cell.bold or None,
        italic=cell.italics or None,
        underline=cell.underscore or None,
        reverse=cell.reverse or None,
    )


def color(name: str) -> str | None:
    """pyte's word for it in rich's."""
    if name == "default":
        return None
    plain = name.removeprefix("bright")
    if plain not in ("black", "red", "green", "brown", "blue", "magenta", "cyan", "white"):
        return f"#{name}"
    return ("bright_" if plain != name else "") + plain.replace("brown", "yellow")


def frame(header: dict[str, Any], events: Sequence[Event], moment: float) -> str:
    """As SVG; of a moment after the end: the last one."""
    *_, (_, cells) = screens(header, [event for event in events if event[0] <= moment], EVERY)
    lines = [Text.assemble(*((text, style) for style, text in spans(line))) for line in cells]
    return as_svg(Text("\n").join(lines), size(cells)[0], header.get("title", ""))


if __name__ == "__main__":
    main()
