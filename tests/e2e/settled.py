"""Runs a training script that knows nothing of the planner: its optimizer waits for it instead."""

import runpy
import sys
from pathlib import Path

import planner
from torch.optim.optimizer import register_optimizer_step_post_hook

register_optimizer_step_post_hook(lambda *_: planner.settle())
del sys.argv[0]
sys.path.insert(0, str(Path(sys.argv[0]).parent))  # as if it had been started itself
runpy.run_path(sys.argv[0], run_name="__main__")
