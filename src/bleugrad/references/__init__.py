"""What a model is compared with: token ids, words, n-grams, and the labels of a batch."""
