"""Limits of text, so that no file makes a command run without end. Real sentences are far below all of them."""

MOST_WORDS = 1000
"""Words of a line that is validated or tested on, and of a training line where ``max_length`` is 0."""

CHARACTERS_PER_WORD = 10
MOST_CHARACTERS = CHARACTERS_PER_WORD * MOST_WORDS
"""Characters of such a line, and of a training line unless ``max_length`` asks for more words: a line without spaces is
one word."""

MOST_WORD_CHARACTERS = 1000
"""Characters of a word that is cut into subwords; the rest of the word is left out, with a warning."""

MOST_BYTES = 2**32
"""Bytes of a text file; of a gzip file, when expanded."""

EXPANSION, ALWAYS_EXPANDED = 100, 2**26
"""A gzip file may expand to 100 times its size, or to 64 MiB if that is more; text expands about 4 times."""
