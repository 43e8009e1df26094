"""What the loss sees of one sentence: numbers, a text for the terminal, and an interactive page."""

from bleugrad.explanation.page import explanation_page
from bleugrad.explanation.result import MOST_PAGE_CELLS, Explanation, check_cells
from bleugrad.explanation.text import fitted

__all__ = ["MOST_PAGE_CELLS", "Explanation", "check_cells", "explanation_page", "fitted"]
