"""The built-in corpus: a synchronous grammar that writes German-like sentences with their English translations.

Every rule writes both sides at once. The German side is one sentence. The English side is drawn anew for each
paraphrase: synonyms, tense, word order and register vary, with skewed odds that the German sentence settles in part.
"""

from bleugrad.data.grammar.corpus import builtin_corpus

__all__ = ["builtin_corpus"]
