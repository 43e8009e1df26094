"""BLEU and chrF of translations by sacreBLEU, with signatures and lengths."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Scores:
    """Scores of a set of translations, in 0..1: corpus BLEU with its precisions of the orders 1 to 4, and chrF.

    ``length_ratio`` is tokens of the translations per token of the references.
    """

    bleu: float
    chrf: float
    precisions: tuple[float, ...]
    brevity_penalty: float
    length_ratio: float
    sentences: int
    bleu_signature: str
    chrf_signature: str

    def to_json(self) -> dict[str, Any]:
        """All values, for JSON."""
        return {**asdict(self), "precisions": list(self.precisions)}

    def line(self) -> str:
        """The scores as text, times 100.

        Example:
            >>> print(score(["a cat sat on a mat"], [("a cat sat on the mat",)]).line())
            BLEU 53.73 (83.3/60.0/50.0/33.3, BP 1.000, length ratio 1.000), chrF 59.97
        """
        precisions = "/".join(f"{100 * precision:.1f}" for precision in self.precisions)
        return (
            f"BLEU {100 * self.bleu:.2f} ({precisions}, BP {self.brevity_penalty:.3f}, "
            f"length ratio {self.length_ratio:.3f}), chrF {100 * self.chrf:.2f}"
        )


def score(hypotheses: Sequence[str], references: Sequence[Sequence[str]], tokenize: str = "none") -> Scores:
    """Corpus scores of one hypothesis and one or more references per sentence.

    ``tokenize`` is the tokenizer of sacreBLEU: "none" for tokenized text, "13a", "intl" or "char".
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    if len(hypotheses) != len(references):
        raise ValueError(f"there are {len(hypotheses)} hypotheses and {len(references)} sentences with references")
    most = max((len(of_sentence) for of_sentence in references), default=1)
    streams: Any = [[of[place] if place < len(of) else None for of in references] for place in range(most)]
    bleu_metric, chrf_metric = BLEU(tokenize=tokenize, force=True), CHRF()
    bleu = bleu_metric.corpus_score(list(hypotheses), streams)
    chrf = chrf_metric.corpus_score(list(hypotheses), streams)
    return Scores(
        bleu=bleu.score / 100,
        chrf=chrf.score / 100,
        precisions=tuple(precision / 100 for precision in bleu.precisions),
        brevity_penalty=bleu.bp,
        length_ratio=bleu.ratio,
        sentences=len(hypotheses),
        bleu_signature=str(bleu_metric.get_signature()),
        chrf_signature=str(chrf_metric.get_signature()),
    )
