"""Trains the tiny net and asks Ebbtide all along, if it is there; writes what it was told."""

import argparse
import hashlib
import json
import threading
from pathlib import Path
from typing import Any

import ebbtide
import planner
import torch
import torch.nn.functional as F
from tiny_train import Batches, Net

STEPS = 23  # the last one ends with the program only
LOOK_AT, CHANGE_AT, PAUSE_AT, RESUME_AT, TRACE_AT = 6, 8, 13, 16, 19


def error_of(call: Any) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def whole_curve() -> ebbtide.Curve:
    """Once it has been computed, by the planning thread, which asking begins."""
    while (curve := ebbtide.curve()).state == "computing":
        planner.time.sleep(0.01)
    return curve


class Asker:
    """Called in the midst of each step, between its forward and its backward pass."""

    def __init__(self, budgets: list[str]) -> None:
        self.budgets = budgets
        self.told: dict[str, Any] = {}

    def __call__(self, index: int) -> None:
        told = self.told
        if index == LOOK_AT:
            told["stats"] = ebbtide.stats()
            told["summary"] = ebbtide.memory_summary()
            plan = ebbtide.plan()
            told["plan"], told["plan_text"] = plan.data, repr(plan)
            told["plan_html"] = plan._repr_html_()
            curve = whole_curve()
            told["curve"], told["curve_text"] = curve.data, repr(curve)
            told["curve_html"] = curve._repr_html_()
            told["unreadable"] = error_of(lambda: ebbtide.set_budget("30G"))
            told["too_many_steps"] = error_of(lambda: ebbtide.trace(101))
            self.ask_too_little()
            asked: list[dict[str, Any]] = []
            thread = threading.Thread(target=lambda: asked.append(ebbtide.stats()))
            thread.start()
            thread.join()
            told["asked_by_thread"] = asked[0]["steps"]
        if index == CHANGE_AT:
            told["asked_in_step"] = ebbtide.stats()["steps"] + 1
            told["change"] = ebbtide.set_budget(int(self.budgets[1]))
        if index == PAUSE_AT:
            told["paused"] = ebbtide.pause()
        if index == PAUSE_AT + 1:
            self.before = ebbtide.stats()["totals"]["recomputed_ops"]
        if index == RESUME_AT:
            told["state_while_paused"] = ebbtide.stats()["state"]
            now = ebbtide.stats()["totals"]["recomputed_ops"]
            told["recomputed_while_paused"] = now - self.before
            told["resumed"] = ebbtide.resume()
        if index == TRACE_AT:
            self.trace_path = ebbtide.trace(2)

    def ask_too_little(self) -> None:
        try:
            ebbtide.set_budget(1 << 20)
        except ebbtide.BudgetError as error:
            self.told["infeasible"] = f"{type(error).__name__}: {error}"
            self.told["smallest_feasible_bytes"] = error.smallest_feasible_bytes

    def finish(self) -> dict[str, Any]:
        while not Path(self.trace_path).exists():  # its thread writes it
            planner.time.sleep(0.01)
        self.told["trace"] = json.loads(Path(self.trace_path).read_text())
        Path(self.trace_path).unlink()
        return self.told


def train(budgets: list[str]) -> dict:
    torch.manual_seed(1)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    batches = Batches(STEPS)
    losses: list[str] = []
    asker = Asker(budgets) if budgets else None
    for index in range(STEPS):
        x, y = batches[index]
        loss = F.cross_entropy(net(x), y)
        if asker:
            asker(index)
        loss.backward()
        losses.append(loss.item().hex())
        optimizer.step()
        optimizer.zero_grad()
        planner.settle()
    digest = hashlib.sha256()
    for parameter in net.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    told = asker.finish() if asker else None
    return {"losses": losses, "parameters_sha256": digest.hexdigest(), "told": told}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--budgets", nargs=2, default=[])
    parser.add_argument("--out")
    options = parser.parse_args()
    result = train(options.budgets)
    if options.out:
        Path(options.out.replace("{rank}", "0")).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
