"""Scores equal those of sacreBLEU, with one reference and with several."""

import pytest
import sacrebleu

from bleugrad.lab.training.scores import score

HYPOTHESES = ["the cat sat on the mat .", "a dog", ""]


def test_scores_are_those_of_sacrebleu():
    references = [("the cat sat on a mat .",), ("a big dog",), ("nothing",)]
    found = score(HYPOTHESES, references)
    streams = [[texts[0] for texts in references]]
    bleu = sacrebleu.corpus_bleu(HYPOTHESES, streams, tokenize="none", force=True)
    assert found.bleu == pytest.approx(bleu.score / 100, abs=1e-12)
    assert found.chrf == pytest.approx(sacrebleu.corpus_chrf(HYPOTHESES, streams).score / 100, abs=1e-12)
    assert (found.brevity_penalty, found.length_ratio, found.sentences) == (bleu.bp, bleu.sys_len / bleu.ref_len, 3)
    assert found.bleu_signature == f"nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:{sacrebleu.__version__}"
    assert "nc:6" in found.chrf_signature


def test_a_sentence_may_have_more_references_than_another():
    references = [("the cat sat on a mat .", "the cat sat on the mat ."), ("a big dog",), ("nothing", "none", "no")]
    found = score(HYPOTHESES, references)
    streams = [["the cat sat on a mat .", "a big dog", "nothing"], ["the cat sat on the mat .", None, "none"]]
    streams.append([None, None, "no"])
    bleu = sacrebleu.metrics.BLEU(tokenize="none", force=True).corpus_score(HYPOTHESES, streams)
    assert found.bleu == pytest.approx(bleu.score / 100, abs=1e-12)
    assert found.bleu > score(HYPOTHESES, [texts[:1] for texts in references]).bleu
    assert "nrefs:var" in found.bleu_signature


def test_as_many_translations_as_references():
    with pytest.raises(ValueError, match="3 hypotheses and 1 sentences"):
        score(HYPOTHESES, [("a",)])
