"""Named corpora: where their files are published, and how these become training, validation and test text."""
