"""Expected clipped n-gram matches: exact, and as the bound of the paper."""
