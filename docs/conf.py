"""Sphinx builds the manual from this folder: make manual

generated/ is written first: the reference of the programs (reference_pages.py) and the simulator's figures (figures.py).
"""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))

import figures
import reference_pages

from tiresias import __version__

project = "Tiresias on Slurm"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]  # Args: and Returns: of docstrings
autodoc_preserve_defaults = True  # os.environ as a word, not this machine's
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
highlight_language = "none"
html_theme = "furo"
html_title = f"{project} {release}"
html_show_sphinx = False
html_copy_source = False


def setup(app: Sphinx) -> None:
    app.add_config_value("figure_jobs", figures.JOBS, "env", int)
    app.connect("builder-inited", generate)


def generate(app: Sphinx) -> None:
    reference_pages.write(app.srcdir / "generated")
    figures.make(app.srcdir / "generated" / "figures", app.config.figure_jobs)
