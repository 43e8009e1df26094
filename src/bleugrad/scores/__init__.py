"""From statistics to a number: BLEU, its certified interval, and BLEU of token ids."""
