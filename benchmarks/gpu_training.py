"""Training on a GPU: plain, measured, under two budgets, and with a checkpoint for each block.

python benchmarks/gpu_training.py [--models gpt2,vit,resnet] [--seconds 12] [--out FILE.json]

Each line is a process. `half` and `seventy` take that share of what is above the base (activations,
gradients) away from the blocks' peak. Step: the median of the last ten. With --deterministic
the plain run repeats its bits, and is slower. The benchmark needs a GPU.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

KIND = "_EBBTIDE_BENCH_KIND"  # set in the processes that measure
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
GIB = 1 << 30
SHARES = {"half": 0.5, "seventy": 0.7}


def gpt2(torch, checkpointed: bool):
    """24 layers of 1024, 16 sequences of 1024 tokens, dropout, bfloat16 by autocast."""
    sys.path.insert(0, str(EXAMPLES))
    import train_gpt

    train_gpt.VOCABULARY = 50304
    model = train_gpt.GPT(24, 1024, 16, 1024, 0.1).cuda()
    if checkpointed:
        model.blocks = checkpoint_each(torch, model.blocks)
    draw = torch.Generator().manual_seed(1)

    def loss():
        tokens = torch.randint(50304, (16, 1025), generator=draw).cuda()
        with torch.autocast("cuda", torch.bfloat16):
            return model(tokens[:, :-1], tokens[:, 1:].reshape(-1))

    return model, loss


def vit(torch, checkpointed: bool):
    """ViT-L/16, 128 pictures, bfloat16 by autocast."""
    import torchvision

    model = torchvision.models.vit_l_16(dropout=0.1).cuda()
    if checkpointed:
        model.encoder.layers = checkpoint_each(torch, model.encoder.layers)
    return model, pictures(torch, model, 128, torch.contiguous_format)


def resnet(torch, checkpointed: bool):
    """ResNet-50, 256 pictures, channels last, bfloat16 by autocast."""
    import torchvision

    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    if checkpointed:
        for name in ("layer1", "layer2", "layer3", "layer4"):
            setattr(model, name, checkpoint_each(torch, getattr(model, name)))
    return model, pictures(torch, model, 256, torch.channels_last)


def pictures(torch, model, count: int, layout):
    draw = torch.Generator("cuda").manual_seed(1)

    def loss():
        x = torch.randn(count, 3, 224, 224, generator=draw, device="cuda")
        labels = torch.randint(1000, (count,), generator=draw, device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            y = model(x.contiguous(memory_format=layout))
        return torch.nn.functional.cross_entropy(y.float(), labels)

    return loss


def checkpoint_each(torch, blocks):
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(torch.nn.Module):
        def __init__(self, block) -> None:
            super().__init__()
            self.block = block

        def forward(self, x):
            return checkpoint(self.block, x, use_reentrant=False)

    wrapped = [Checkpointed(block) for block in blocks]
    if isinstance(blocks, torch.nn.ModuleList):
        return torch.nn.ModuleList(wrapped)
    return torch.nn.Sequential(*wrapped)


MODELS = {"gpt2": gpt2, "vit": vit, "resnet": resnet}


def train(name: str, kind: str, options: argparse.Namespace) -> dict:
    import torch

    seconds = options.seconds
    if options.deterministic:
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False
    torch.manual_seed(0)
    model, loss_of = MODELS[name](torch, kind == "checkpoint")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    times, losses, base = [], [], 0
    begin = time.perf_counter()
    while len(times) < 30 or time.perf_counter() - begin < seconds:
        if len(times) == 3:
            base = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        started = time.perf_counter()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
        times.append(time.perf_counter() - started)
        if time.perf_counter() - begin > 4 * seconds:
            break
    free, total = torch.cuda.mem_get_info()
    return {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "steps": len(times),
        "step_ms": 1e3 * statistics.median(times[-10:]),
        "first_steps_ms": [round(1e3 * t) for t in times[:6]],
        "base_bytes": base,
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "reserved_bytes": torch.cuda.memory_reserved(),
        "others_bytes": total - free - torch.cuda.memory_reserved(),
        "losses": losses,
    }


def measure(model: str, kind: str, variables: dict[str, str], options) -> dict:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("EBBTIDE")}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        environment |= {KIND: kind} | variables
        if options.deterministic:
            environment["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        if variables:
            environment |= {"EBBTIDE_REPORT": str(report)}
        result_path = Path(folder) / "result.json"
        command = [sys.executable, __file__, "--models", model, "--out", str(result_path)]
        command += ["--seconds", str(options.seconds)]
        command += ["--deterministic"] * options.deterministic
        try:
            done = subprocess.run(
                command,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=10 * options.seconds + 60,
            )
        except subprocess.TimeoutExpired:
            return {"failed": "it did not end"}
        lines = done.stdout.strip().splitlines()
        if done.returncode != 0 or not result_path.exists():
            return {"failed": "\n".join(lines[-30:])}
        result = json.loads(result_path.read_text())
        result["said"] = [line for line in lines if line.startswith("[ebbtide")]
        if report.exists():
            result["report"] = json.loads(report.read_text())
        return result


def equal_steps(losses: list[str], others: list[str]) -> int:
    pairs = zip(losses, others, strict=False)  # each ran as many as there was time for
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(losses), len(others)))


def line(model: str, kind: str, result: dict, plain: dict) -> str:
    if "failed" in result:
        return f"{model:<8}{kind:<12}failed\n{result['failed']}"
    report = result.get("report", {})
    columns = [
        f"{result['step_ms']:8.1f} ms  x{result['step_ms'] / plain['step_ms']:.3f}",
        f"peak {result['peak_bytes'] / GIB:6.2f} GiB",
        f"bits equal for {equal_steps(result['losses'], plain['losses'])} steps",
    ]
    if report:
        columns += [
            f"violations {report['budget_violations']}",
            f"followed {report['followed_steps']} of {report['steps']}",
            f"recomputed {report['recomputed_ops']}",
            f"spilled {report['spilled_bytes'] / GIB:.1f} GiB",
            f"offloaded {report['offloaded_bytes'] / GIB:.1f} GiB",
        ]
    return f"{model:<8}{kind:<12}" + ", ".join(columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="gpt2,vit,resnet")
    parser.add_argument("--kinds", default="plain,ebbtide,half,seventy,checkpoint,again")
    parser.add_argument("--seconds", type=float, default=12, help="of each process, at least")
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if KIND in os.environ:
        options.out.write_text(json.dumps(train(options.models, os.environ[KIND], options)))
        return
    kinds = ["plain"] + [kind for kind in options.kinds.split(",") if kind != "plain"]
    import torch

    if not torch.cuda.is_available():
        print("gpu_training: no GPU here, nothing is measured")
        if options.out:
            options.out.write_text(json.dumps({"skipped": "no GPU"}))
        return
    results: dict[str, dict] = {}
    for model in options.models.split(","):
        rows = results[model] = {}
        for kind in kinds:
            variables = {"EBBTIDE": "1"} if kind == "ebbtide" else {}
            if kind in SHARES:
                plain = rows["plain"]
                kept = plain["peak_bytes"] - SHARES[kind] * (
                    plain["peak_bytes"] - plain["base_bytes"]
                )
                variables = {"EBBTIDE_BUDGET": str(int(kept) + plain["others_bytes"])}
            rows[kind] = measure(model, kind, variables, options)
            print(line(model, kind, rows[kind], rows["plain"]), flush=True)
            if options.out:  # what is measured stays, though the next one were stopped
                options.out.write_text(json.dumps(results, indent=2))
            if "failed" in rows["plain"]:
                break


if __name__ == "__main__":
    main()
