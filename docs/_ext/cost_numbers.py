"""Numbers of the documentation: time and memory of the loss."""

from functools import partial

from measured import NUMBERS, Row, number, read, span


def loss_times(allocator: str = "default", family: str = "plain") -> list[Row]:
    """Times with the default settings of the C library, or with ``keeping``, where the process keeps its memory."""
    rows = read("loss/loss.json")["times"]
    return [row for row in rows if row["family"] == family and row["allocator"] == allocator]


LARGE_VOCABULARY = 8000
"""The costs that the text states are those of shapes with at least this V."""


def _cost(name: str, allocator: str = "default", of: str = "cross_entropy") -> str:
    times = [row["milliseconds"] for row in loss_times(allocator) if row["shape"][2] >= LARGE_VOCABULARY]
    return span([found[name] / found[of] for found in times], lambda value: f"{value:.2f}")


def _largest_fused() -> Row:
    rows = [row for row in read("loss/loss.json")["memory"] if "fused" in row["megabytes"]]
    return max(rows, key=lambda row: row["shape"][-1])


def _memory(name: str) -> str:
    """Peak memory of a step; ``plain`` is the loss after a projection, with its logits."""
    return f"{_largest_fused()['megabytes'][name]:.0f} MB"


@number
def fused_shape() -> str:
    return " x ".join(map(str, _largest_fused()["shape"]))


SMOOTHED = "recommended, smoothed"
NUMBERS |= {
    "recommended-cost": partial(_cost, SMOOTHED, of="cross_entropy, smoothed"),
    "recommended-cost-kept": partial(_cost, SMOOTHED, "keeping", "cross_entropy, smoothed"),
    "loss-cost": partial(_cost, "exact"),
    "loss-cost-kept": partial(_cost, "exact", "keeping"),
    "bound-cost": partial(_cost, "bound"),
    "words-cost": partial(_cost, "exact, words"),
    "fused-memory": partial(_memory, "fused"),
    "unfused-memory": partial(_memory, "plain"),
}
