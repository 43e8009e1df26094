"""Losses on a GPU beside cross-entropy and ``ctc_loss``: time, peak memory, launches, environment.

    python benchmarks/gpu.py                # needs a GPU
    python benchmarks/gpu.py --device cpu   # tries the script itself

Times are medians in one process, between events of the device, after warm-up steps that compile the kernels.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec

import torch
import torch.nn.functional as F
from timing import machine
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

import bleugrad
from bleugrad.backends import last_used

SHAPES = [(32, 128, 32000), (64, 32, 32000), (8, 512, 50000)]
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def candidates(logits: Tensor, labels: Tensor) -> dict[str, Callable[[], Tensor]]:
    vocabulary = logits.shape[2]
    starts = torch.rand(vocabulary, generator=torch.Generator().manual_seed(0)).lt(0.5).to(logits.device)
    options = {
        "exact": {},
        "exact, EOS": {"eos_id": 0},
        "exact, words": {"word_start": starts},
        "exact, words, EOS": {"word_start": starts, "eos_id": 0},
    }
    found = {name: bleugrad.ExpectedBLEULoss(**chosen) for name, chosen in options.items()}
    flat = {"cross_entropy": F.cross_entropy}
    if logits.device.type == "cuda" and find_spec("liger_kernel") is not None:
        from liger_kernel.transformers import LigerCrossEntropyLoss

        flat["Liger cross_entropy"] = LigerCrossEntropyLoss()
    losses = {name: lambda loss=loss: loss(logits.view(-1, vocabulary), labels.view(-1)) for name, loss in flat.items()}
    losses |= {name: lambda loss=loss: loss(logits, labels) for name, loss in found.items()}
    return losses | frames(logits, labels[:, ::2].contiguous())


def frames(logits: Tensor, labels: Tensor) -> dict[str, Callable[[], Tensor]]:
    """The losses of CTC, whose blank is token 0."""
    batch, steps, _ = logits.shape
    lengths = (torch.full((batch,), size, device=logits.device) for size in (steps, labels.shape[1]))
    given, loss = (labels, *lengths), bleugrad.ExpectedBLEULoss()
    return {
        "ctc_loss": lambda: F.ctc_loss(logits.log_softmax(-1, dtype=torch.float32).transpose(0, 1), *given),
        "exact, CTC": lambda: loss(bleugrad.CTC(logits, blank_id=0), labels),
    }


def measured(call: Callable[[], Tensor], logits: Tensor, rounds: int) -> dict[str, float]:
    """Median milliseconds, peak memory beyond the logits in MB, and launches of one step."""
    device = logits.device

    def step() -> None:
        logits.grad = None
        call().backward()

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    for _ in range(3):
        step()
    wait()
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        step()
        wait()
        times.append(time.perf_counter() - begin)
    found = {"milliseconds": 1e3 * statistics.median(times)}
    if device.type == "cuda":
        logits.grad = None
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        step()
        wait()
        found["megabytes"] = (torch.cuda.max_memory_allocated(device) - before) / 2**20
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            step()
            wait()
        found["launches"] = sum(event.count for event in profiler.key_averages())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda (also for ROCm) or cpu")
    parser.add_argument("--rounds", type=int, default=20, help="timed steps of each loss")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SystemExit("gpu.py: no GPU is available; --device cpu tries the script itself")
    environment = machine()
    if device.type == "cuda":
        environment |= {"gpu": torch.cuda.get_device_name(device), "cuda": str(torch.version.cuda or torch.version.hip)}
    print(json.dumps(environment))
    for batch, steps, vocabulary in SHAPES if device.type == "cuda" else [(2, 16, 1000)]:
        for name, dtype in TYPES.items():
            generator = torch.Generator().manual_seed(0)
            labels = torch.randint(1, vocabulary, (batch, steps), generator=generator)
            labels[:, ::5] = 7  # a frequent word
            logits = torch.randn(batch, steps, vocabulary, generator=generator).to(device, dtype).requires_grad_()
            for loss, call in candidates(logits, labels.to(device)).items():
                row = {"B": batch, "T": steps, "V": vocabulary, "dtype": name, "loss": loss}
                print(json.dumps(row | measured(call, logits, arguments.rounds)), flush=True)
    print(json.dumps({"backends": last_used()}))


if __name__ == "__main__":
    main()
