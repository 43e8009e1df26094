"""The paper's toy task (section 4.1): free logits, a random reference, gradient ascent."""
