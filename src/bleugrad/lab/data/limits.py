"""Limits of text files, which bound the time of a command. Real sentences are far below them."""

MOST_WORDS = 1000
"""Maximum words of a validation or test line, and of a training line if ``max_length`` is 0."""

CHARACTERS_PER_WORD = 10
MOST_CHARACTERS = CHARACTERS_PER_WORD * MOST_WORDS
"""Maximum characters of such a line (a line without spaces is one word)."""

MOST_WORD_CHARACTERS = 1000
"""Maximum characters of a word that is split into subwords; longer words are truncated with a warning."""

MOST_BYTES = 2**32
"""Maximum size of a text file in bytes, after decompression."""

EXPANSION, ALWAYS_EXPANDED = 100, 2**26
"""A gzip file may expand to 100 times its size, or to 64 MiB if that is more; text usually expands 4 times."""
