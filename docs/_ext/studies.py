"""All numbers and tables that pages may use; the import of a study registers its own."""

import beam_numbers  # noqa: F401
import cost_numbers  # noqa: F401
import decisions  # noqa: F401
import estimator_numbers  # noqa: F401
import one_pass_numbers  # noqa: F401
import paper_numbers  # noqa: F401
import recipe_numbers  # noqa: F401
import subword_numbers  # noqa: F401
import toy_numbers  # noqa: F401
from measured import NUMBERS, TABLES

__all__ = ["NUMBERS", "TABLES"]
