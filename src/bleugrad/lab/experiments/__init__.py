"""Studies: each fills a run directory with measurements."""
