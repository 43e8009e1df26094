"""The mathematical core: n-gram index, BLEU, expectations, bounds, certificates. Needs torch and nothing else."""
