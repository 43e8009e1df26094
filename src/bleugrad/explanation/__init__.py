"""Explains the loss of one sentence: numbers, a text for the terminal, and an interactive page."""

from bleugrad.explanation.page import explanation_page
from bleugrad.explanation.result import Explanation

__all__ = ["Explanation", "explanation_page"]
