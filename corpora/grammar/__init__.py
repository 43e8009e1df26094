"""A synchronous grammar that writes German-like sentences with their English translations.

Every rule writes both languages. The German side is one sentence. The English side is drawn separately for each
paraphrase: synonyms, tense, word order and register vary. Their odds are skewed and depend on the German sentence.
``python -m corpora.grammar`` writes the built-in corpus of the package.
"""
