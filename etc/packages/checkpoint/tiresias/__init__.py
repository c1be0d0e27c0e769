"""Tiresias on Slurm, the training side alone: tiresias.checkpoint and what it imports.

Where slurm-tiresias is on sys.path too, its package is imported instead: one process never mixes two versions. (In one folder the
.pth file of this distribution already comes last; but a user's folder precedes the system's.)
"""

import sys
from pathlib import Path

__version__ = "0.1.0"


def _full() -> Path | None:
    """The folder of slurm-tiresias's package; None where sys.path has none."""
    places = (Path(entry, "tiresias") for entry in sys.path)
    return next((place for place in places if (place / "slurm_plugin" / "__init__.py").is_file()), None)


def _import_instead(place: Path) -> None:
    from importlib.util import module_from_spec, spec_from_file_location  # here: rarely needed

    spec = spec_from_file_location(__name__, place / "__init__.py", submodule_search_locations=[str(place)])
    assert spec is not None
    assert spec.loader is not None
    sys.modules[__name__] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


if _place := _full():
    _import_instead(_place)
