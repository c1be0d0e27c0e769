"""A program of Lightning on two ranks of this machine's processor: python two_lightning_ranks.py PROGRAM [ARGUMENTS]"""

from __future__ import annotations

import functools
import runpy
import sys

import lightning.pytorch

lightning.pytorch.Trainer = functools.partial(lightning.pytorch.Trainer, accelerator="cpu", devices=2, strategy="ddp")
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
