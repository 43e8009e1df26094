"""Write the built-in corpus of the package; see ``bleugrad/lab/data/builtin.py`` for its form."""

import bz2

from bleugrad.lab.data.builtin import FILE, LARGEST
from corpora.grammar.streams import streams


def text() -> str:
    """The content of the file: a line per pair, and an empty line between the splits."""
    written = streams(**LARGEST)
    return "\n".join("".join("\t".join((german, *english)) + "\n" for german, english in pairs) for pairs in written)


if __name__ == "__main__":
    FILE.write_bytes(bz2.compress(text().encode()))
