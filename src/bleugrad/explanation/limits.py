"""How much is explained at once. A cell is a position of the hypothesis against a reference token, in one order."""

MOST_CELLS = 2**22
"""Of an explanation; 1,000 positions with 1,000 reference tokens in 4 orders take about 2 minutes and 2 GB."""

MOST_PAGE_CELLS = 2**19
"""Of a page, all checkpoints together; it has about 12 MB then."""


def check_cells(what: str, positions: int, tokens: int, orders: int, most: int, times: int = 1) -> None:
    """Raise if there are more than ``most`` cells, ``times`` explanations counted."""
    shape = f"{positions} positions x {tokens} reference tokens x {orders} orders x {times} checkpoints"
    cells = positions * tokens * orders * times
    if cells > most:
        raise ValueError(
            f"{what} has {shape} = {cells} cells; expected at most {most}: take a part of the sentence, "
            "a lower max_order or fewer checkpoints"
        )
