"""One frame as an SVG file without remote resources, such as fonts: it may be embedded in a README."""

from __future__ import annotations

import io
import re

from rich.console import Console, RenderableType
from rich.terminal_theme import TerminalTheme

_THEME = TerminalTheme(
    (24, 25, 33),
    (214, 217, 228),
    [(24, 25, 33), (239, 111, 108), (121, 201, 123), (233, 199, 92),
     (110, 160, 245), (196, 146, 240), (94, 203, 208), (214, 217, 228)],
    [(122, 127, 148), (255, 135, 130), (150, 220, 150), (245, 215, 120),
     (140, 180, 255), (215, 170, 255), (125, 225, 228), (255, 255, 255)],
)  # fmt: skip
_REMOTE_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def as_svg(renderable: RenderableType, width: int, title: str) -> str:
    """Render in `width` cells and return the SVG document."""
    console = Console(
        width=width, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor", no_color=False
    )
    console.print(renderable)
    document = console.export_svg(title=title, theme=_THEME, unique_id="tiresias")
    return _REMOTE_FONT.sub("", document)
