"""Search for translations of a trained model: greedy, beam search and sampling, many sentences at once."""
