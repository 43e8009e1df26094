"""Does training on a metric improve that metric? A small model is tuned on ROUGE-2 F1 and on BLEU, and scored by both.

    python benchmarks/scores_study.py --data DIR --output results/scores_study
    python benchmarks/scores_study.py --redraw results/scores_study       # the summary again from the kept numbers

For each corpus and seed an LSTM with attention is trained by cross-entropy. From that checkpoint it is trained on with
cross-entropy alone, and with 1 - expected BLEU or 1 - expected ROUGE-2 F1 plus a share of cross-entropy, against up to
five references of a sentence. Greedy output on the test set is scored by sacreBLEU and ``rouge-score``. Rerun the
command to resume: finished runs are in log.jsonl. DIR (or $BLEUGRAD_DATA) holds ``e2e_nlg`` and ``captions``.
"""

import argparse
import copy
import dataclasses
import gzip
import json
import os
import random
import statistics
import time
from collections import Counter
from pathlib import Path

import sacrebleu
import torch
from rouge_score import rouge_scorer
from torch import Tensor, nn

import bleugrad
from bleugrad.losses import recipe

PAD, BOS, EOS, UNK = range(4)
FILES = {"e2e_nlg": ("train.multi.src", "train.refs.trg", "test.src", "test.refs.trg")}
FILES["captions"] = ("train.de", "train.refs.en", "test.de", "test.refs.en")
OBJECTIVES = ("cross-entropy", "BLEU", "ROUGE-2 F1")


@dataclasses.dataclass(frozen=True)
class Settings:
    width: int = 192
    batch: int = 32
    vocabulary: int = 3000  # most frequent words of each side
    longest: int = 40  # tokens of a source or an output
    references: int = 5  # of a sentence in training, drawn for each batch
    pretrain: int = 1000
    tune: int = 400
    rate: float = 2e-3
    tune_rate: float = 5e-4
    share: float = 0.25  # of cross-entropy beside BLEU and ROUGE
    sentences: int = 1000  # of the test set


def read(path: Path) -> list[str]:
    with gzip.open(path.with_name(path.name + ".gz"), "rt", encoding="utf-8") as file:
        return file.read().splitlines()


class Side:
    """The words of one language."""

    def __init__(self, lines: list[str], size: int) -> None:
        counts = Counter(word for line in lines for word in line.split())
        self.words = ["<pad>", "<s>", "</s>", "<unk>", *(word for word, _ in counts.most_common(size))]
        self.ids = {word: index for index, word in enumerate(self.words)}

    def encode(self, line: str, longest: int) -> list[int]:
        return [*(self.ids.get(word, UNK) for word in line.split()[:longest]), EOS]


def padded(rows: list[list[int]], value: int = PAD) -> Tensor:
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


class Translator(nn.Module):
    """An encoder and a decoder of one LSTM layer each, with dot-product attention."""

    def __init__(self, source: int, target: int, width: int) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(source, width, PAD), nn.Embedding(target, width, PAD)
        self.encoder = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        self.decoder = nn.LSTM(width, width, batch_first=True)
        self.mix, self.out, self.drop = nn.Linear(2 * width, width), nn.Linear(width, target), nn.Dropout(0.2)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
        states, (hidden, cell) = self.encoder(self.drop(self.source(source)))
        first = tuple(part.transpose(0, 1).flatten(1)[None].contiguous() for part in (hidden, cell))
        return states, source == PAD, first

    def decode(self, inputs: Tensor, encoded: tuple, state: tuple) -> tuple[Tensor, tuple]:
        memory, empty, _ = encoded
        states, state = self.decoder(self.drop(self.target(inputs)), state)
        weights = (states @ memory.mT).masked_fill(empty[:, None], -torch.inf).softmax(-1)
        mixed = torch.tanh(self.mix(torch.cat([states, weights @ memory], 2)))
        return self.out(self.drop(mixed)), state

    def forward(self, source: Tensor, inputs: Tensor) -> Tensor:
        encoded = self.encode(source)
        return self.decode(inputs, encoded, encoded[2])[0]

    @torch.no_grad()
    def translate(self, source: Tensor, longest: int) -> list[list[int]]:
        self.eval()
        encoded = self.encode(source)
        state, token = encoded[2], torch.full((len(source), 1), BOS)
        made = []
        for _ in range(longest):
            logits, state = self.decode(token, encoded, state)
            token = logits.argmax(2)
            made.append(token)
        self.train()
        rows = torch.cat(made, 1).tolist()
        return [row[: row.index(EOS)] if EOS in row else row for row in rows]


class Corpus:
    def __init__(self, folder: Path, settings: Settings) -> None:
        train, train_refs, test, test_refs = (read(folder / name) for name in FILES[folder.name])
        self.settings, several = settings, [line.split("\t") for line in train_refs]
        self.source = Side(train, settings.vocabulary)
        self.target = Side([line for lines in several for line in lines], settings.vocabulary)
        self.train = [
            (self.source.encode(one, settings.longest), [self.target.encode(line, settings.longest) for line in lines])
            for one, lines in zip(train, several, strict=True)
        ]
        self.test = [self.source.encode(one, settings.longest) for one in test[: settings.sentences]]
        self.wanted = [line.split("\t") for line in test_refs[: settings.sentences]]

    def batches(self, number: int, seed: int):
        drawn = random.Random(seed)
        for _ in range(number):
            chosen = drawn.sample(self.train, self.settings.batch)
            several = [drawn.sample(refs, min(len(refs), self.settings.references)) for _, refs in chosen]
            labels = padded([refs[0] for refs in several], -100)
            inputs = torch.cat([torch.full((len(chosen), 1), BOS), labels[:, :-1].clamp(min=0)], 1)
            yield padded([source for source, _ in chosen]), inputs, labels, several

    def score(self, model: Translator) -> dict[str, float]:
        made = []
        for first in range(0, len(self.test), 250):
            made += model.translate(padded(self.test[first : first + 250]), self.settings.longest)
        lines = [" ".join(self.target.words[token] for token in row) for row in made]
        streams = [
            [refs[k] if k < len(refs) else None for refs in self.wanted] for k in range(max(map(len, self.wanted)))
        ]
        bleu = sacrebleu.corpus_bleu(lines, streams, tokenize="none", force=True).score
        scorer = rouge_scorer.RougeScorer(["rouge2", "rougeL"], tokenizer=Spaces())
        rouges = [scorer.score_multi(refs, line) for refs, line in zip(self.wanted, lines, strict=True)]
        means = {name: 100 * statistics.mean(one[name].fmeasure for one in rouges) for name in ("rouge2", "rougeL")}
        ratio = sum(len(line.split()) for line in lines) / sum(len(refs[0].split()) for refs in self.wanted)
        return {"BLEU": bleu, "ROUGE-2 F1": means["rouge2"], "ROUGE-L F1": means["rougeL"], "length": ratio}


class Spaces:
    def tokenize(self, text: str) -> list[str]:
        return text.split()


def train(model: Translator, corpus: Corpus, objective: str, steps: int, rate: float, seed: int) -> float:
    """Train, and return the seconds of processor time."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    score = {"BLEU": bleugrad.BLEU(), "ROUGE-2 F1": bleugrad.ROUGE(2, "f1")}.get(objective)
    loss = None
    if score is not None:
        options = {"sharpness": recipe.SHARPNESS, "end_positions": recipe.END_POSITIONS}
        expectation = bleugrad.Expectation(score, level="sentence", eos_id=EOS, **options)
        loss = bleugrad.ExpectedScoreLoss(expectation, cross_entropy_weight=corpus.settings.share)
    begin = time.process_time()
    for source, inputs, labels, references in corpus.batches(steps, seed):
        logits = model(source, inputs)
        if loss is None:
            value = nn.functional.cross_entropy(logits.transpose(1, 2), labels)
        else:
            value = loss(logits, labels, references=references)
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    return time.process_time() - begin


def run(settings: Settings, data: Path, output: Path, seeds: list[int]) -> None:
    torch.set_num_threads(1)
    output.mkdir(parents=True, exist_ok=True)
    log = output / "log.jsonl"
    done = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
    finished = {(one["corpus"], one["seed"], one["objective"]) for one in done}
    for seed in seeds:
        for name in FILES:
            left = [objective for objective in ("start", *OBJECTIVES) if (name, seed, objective) not in finished]
            if not left:
                continue
            corpus = Corpus(data / name, settings)
            torch.manual_seed(seed)
            start = Translator(len(corpus.source.words), len(corpus.target.words), settings.width)
            seconds = train(start, corpus, "cross-entropy", settings.pretrain, settings.rate, seed)
            for objective in left:
                model = copy.deepcopy(start)
                if objective != "start":
                    torch.manual_seed(seed + 1000)
                    seconds = train(model, corpus, objective, settings.tune, settings.tune_rate, seed + 1000)
                found = {key: round(value, 3) for key, value in corpus.score(model).items()}
                row = {"corpus": name, "seed": seed, "objective": objective, **found, "seconds": round(seconds, 1)}
                with log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(row, flush=True)
                write_summary(settings, output)


def write_summary(settings: Settings, output: Path) -> None:
    rows = [json.loads(line) for line in (output / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    (output / "config.json").write_text(json.dumps(dataclasses.asdict(settings), indent=1) + "\n", encoding="utf-8")
    lines = [
        "# A model tuned on BLEU and on ROUGE-2 F1, scored by both",
        "",
        "`python benchmarks/scores_study.py`. Means over seeds, and the range. Greedy output on the test set. BLEU is",
        "sacreBLEU's with all references (`tok:none`), ROUGE is `score_multi` of rouge-score, times 100.",
        "",
        "| corpus | trained on | seeds | BLEU | ROUGE-2 F1 | ROUGE-L F1 | length ratio | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in FILES:
        for objective in ("start", *OBJECTIVES):
            found = [row for row in rows if (row["corpus"], row["objective"]) == (name, objective)]
            if found:
                parts = [_spread([row[key] for row in found]) for key in ("BLEU", "ROUGE-2 F1", "ROUGE-L F1")]
                rest = [
                    f"{statistics.mean(row[key] for row in found):.{digits}f}"
                    for key, digits in (("length", 3), ("seconds", 0))
                ]
                lines.append("| " + " | ".join([name, objective, str(len(found)), *parts, *rest]) + " |")
    (output / "summary.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("BLEUGRAD_DATA"))
    parser.add_argument("--output", type=Path, default=Path("runs/scores_study"))
    parser.add_argument("--redraw", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--pretrain", type=int, default=Settings.pretrain)
    parser.add_argument("--tune", type=int, default=Settings.tune)
    chosen = parser.parse_args()
    settings = Settings(pretrain=chosen.pretrain, tune=chosen.tune)
    if chosen.redraw is not None:
        write_summary(settings, chosen.redraw)
    elif chosen.data is None or not all((Path(chosen.data) / name).is_dir() for name in FILES):
        print("skipped: no e2e_nlg and captions; give their folder with --data or $BLEUGRAD_DATA")
    else:
        run(settings, Path(chosen.data), chosen.output, chosen.seeds)


if __name__ == "__main__":
    main()
