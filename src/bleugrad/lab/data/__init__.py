"""Parallel text: corpora, vocabularies, filters and batches."""
