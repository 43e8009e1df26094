"""The laboratory: trains translation models with the library's losses, to repeat and extend the paper.

It uses the public names of :mod:`bleugrad` only, and the library never imports it.
"""
