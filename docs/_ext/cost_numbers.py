"""Numbers and tables of the documentation: cost of the loss."""

from measured import Row, number, read, span


def loss_times(allocator: str = "default", family: str = "plain") -> list[Row]:
    """Of processes with the C library's own settings, or told to be ``keeping`` their memory."""
    rows = read("loss/loss.json")["times"]
    return [row for row in rows if row["family"] == family and row["allocator"] == allocator]


LARGE_VOCABULARY = 8000
"""The costs that the text states are those of shapes with at least this V."""


def _cost(name: str, allocator: str = "default") -> str:
    times = [row["milliseconds"] for row in loss_times(allocator) if row["shape"][2] >= LARGE_VOCABULARY]
    return span([found[name] / found["cross_entropy"] for found in times], lambda value: f"{value:.2f}")


@number
def loss_cost() -> str:
    return _cost("exact")


@number
def loss_cost_kept() -> str:
    return _cost("exact", "keeping")


@number
def bound_cost() -> str:
    return _cost("bound")


@number
def words_cost() -> str:
    return _cost("exact, words")


def _largest_fused() -> Row:
    rows = [row for row in read("loss/loss.json")["memory"] if "fused" in row["megabytes"]]
    return max(rows, key=lambda row: row["shape"][-1])


@number
def fused_shape() -> str:
    return " x ".join(map(str, _largest_fused()["shape"]))


@number
def fused_memory() -> str:
    return f"{_largest_fused()['megabytes']['fused']:.0f} MB"


@number
def unfused_memory() -> str:
    """Of the plain loss with the projection before it, logits included."""
    row = _largest_fused()
    return f"{row['megabytes']['plain']:.0f} MB"
