"""Search for translations of a trained model, many sentences at once; greedy search is a beam of width 1."""
