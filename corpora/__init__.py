"""Programs that make the corpora of the package; they are not installed."""
