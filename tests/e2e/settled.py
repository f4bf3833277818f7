"""Runs a training script that knows nothing of the planner: its optimizer waits for it instead."""

import runpy
import sys

import planner
from torch.optim.optimizer import register_optimizer_step_post_hook

register_optimizer_step_post_hook(lambda *_: planner.settle())
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
