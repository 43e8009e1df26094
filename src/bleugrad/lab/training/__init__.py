"""Training, tuning and using translation models: from settings to a run directory, and from a run to translations."""
