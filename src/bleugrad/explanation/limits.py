"""Size limits. A cell is one position, one reference token and one order."""

MOST_CELLS = 2**22
"""Maximum cells of an explanation; 1,000 x 1,000 x 4 take about 2 minutes and 2 GB."""

MOST_PAGE_CELLS = 2**19
"""Maximum cells of a page over all checkpoints, about 12 MB."""


def check_cells(what: str, positions: int, tokens: int, orders: int, most: int, times: int = 1) -> None:
    """Raise if ``times`` explanations have more than ``most`` cells."""
    shape = f"{positions} positions x {tokens} reference tokens x {orders} orders x {times} checkpoints"
    cells = positions * tokens * orders * times
    if cells > most:
        raise ValueError(
            f"{what} has {shape} = {cells} cells; expected at most {most}: use a part of the sentence, "
            "a lower max_order or fewer checkpoints"
        )
