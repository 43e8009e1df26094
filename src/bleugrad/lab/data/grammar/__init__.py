"""The built-in corpus: a synchronous grammar that writes German-like sentences with their English translations.

Every rule writes both languages. The German side is one sentence. The English side is drawn separately for each
paraphrase: synonyms, tense, word order and register vary. Their odds are skewed and depend on the German sentence.
"""

from bleugrad.lab.data.grammar.corpus import builtin_corpus

__all__ = ["builtin_corpus"]
