"""Public implementations of related losses, called like those of bleugrad: one adapter for each.

A file is run unchanged. Libraries that it imports and that the loss does not use are replaced by stand-ins, and tensors
stay on the CPU.
"""

import hashlib
import sys
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

ORDERS = range(1, 5)
PAD, BLANK = 1, 4
"""Ids that code for fairseq fixes."""

Call = Callable[..., Tensor]


@dataclass(frozen=True)
class Loss:
    """Both read what the model emits and the labels: logits, or those of vertices and transitions, then labels.

    ``step`` is the timed scalar, and ``matches`` the estimate of E[O_n] for each order of the family, if there is one.
    """

    step: Call
    matches: Call | None = None


def on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with ``Tensor.cuda`` leaving tensors where they are."""
    return patch.object(torch.Tensor, "cuda", lambda tensor, *_: tensor)(function)


def authors(module: Any) -> Loss:
    """``calculate_overlap`` of each order. Their ``bleu`` needs a version of torch that allows an index on a scalar."""

    def matches(logits: Tensor, labels: Tensor) -> Tensor:
        probs, ids = logits.softmax(2), labels.tolist()
        lengths = [labels.shape[1]] * len(ids)
        return torch.stack([module.calculate_overlap(probs, ids, n, lengths).sum() for n in ORDERS])

    return Loss(lambda logits, labels: -matches(logits, labels).sum(), matches)


def debleu(module: Any) -> Loss:
    """``mBLEU`` returns the loss, and the weighted negative logarithm of each precision, from which matches follow."""
    criterion = module.mBLEU(max_order=len(ORDERS))
    weights = torch.tensor([0.1, 0.3, 0.3, 0.3])

    def call(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        lengths = logits.new_full(labels.shape[:1], labels.shape[1])
        mask = logits.new_ones(labels.shape[0], labels.shape[1] + 1)  # one column more than positions
        return criterion(labels, logits.softmax(2), lengths, lengths, mask, mask, device="cpu")

    def matches(logits: Tensor, labels: Tensor) -> Tensor:
        totals = labels.shape[0] * torch.tensor([labels.shape[1] - n + 1 for n in ORDERS])
        return ((-call(logits, labels)[1] / weights).exp() - 1e-9) * totals

    return Loss(lambda logits, labels: call(logits, labels)[0], matches)


def eisl(module: Any) -> Loss:
    """The n-gram part of the loss. It is a log-likelihood, not an estimate of matches: only its cost is compared."""
    criterion = module.EISLNatCriterion.__new__(module.EISLNatCriterion)  # its options are not used here

    @on_cpu
    def step(logits: Tensor, labels: Tensor) -> Tensor:
        return criterion.batch_log_EISL_cnn(logits.log_softmax(2), labels, list(ORDERS)).sum()

    return Loss(step)


def bon(module: Any) -> Loss:
    """min(E[count], c) of each order; the loss uses one order, and 2 is timed."""
    model = module.FastTransformer
    functions = (model.onegram_match, model.twogram_match, model.threegram_match, model.fourgram_match)

    @on_cpu
    def order(n: int, logits: Tensor, labels: Tensor) -> Tensor:
        lengths = [labels.shape[1]] * labels.shape[0]
        found = functions[n - 1](None, labels.tolist(), lengths, logits.softmax(2).flatten(0, 1))
        return torch.stack([match for match, _ in found]).sum()

    def matches(logits: Tensor, labels: Tensor) -> Tensor:
        return torch.stack([order(n, logits, labels) for n in ORDERS])

    return Loss(lambda logits, labels: -order(2, logits, labels), matches)


def nmla(module: Any) -> Loss:
    """The loss of bigrams: 2 matches / (R + L - 2), negative. L is the expected length without the first frame."""
    criterion = module.LabelSmoothedDualImitationCriterion

    @on_cpu
    def step(logits: Tensor, labels: Tensor) -> Tensor:
        return criterion.compute_ctc_bigram_loss(None, logits.log_softmax(2), labels)

    def matches(logits: Tensor, labels: Tensor) -> Tensor:
        probs = logits.softmax(2)
        begun = probs[:, 1:] * (1 - probs[:, :-1])
        length = (begun.sum() - begun[:, :, BLANK].sum()) / labels.shape[0]
        pairs = labels.shape[1] + length - 2
        return -step(logits, labels)[None] * pairs / 2 * labels.shape[0]

    return Loss(step, matches)


def fa_dat(module: Any) -> Loss:
    """The loss of bigrams in torch operations; an option replaces one of its loops by a kernel for GPUs."""
    criterion = module.NATDAGLoss.__new__(module.NATDAGLoss)  # its other options are not used here
    criterion.max_ngram_order = 2
    criterion.cfg = types.SimpleNamespace(numba_ngram_loss=False)
    criterion.task = types.SimpleNamespace(tgt_dict=types.SimpleNamespace(pad=lambda: PAD))

    @on_cpu
    def call(logits: Tensor, transitions: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return criterion._compute_ngram_loss(logits.softmax(2), transition_probs(transitions), labels)

    def matches(logits: Tensor, transitions: Tensor, labels: Tensor) -> Tensor:
        return call(logits, transitions, labels)["recall"][None] * labels[:, 1:].numel()

    return Loss(lambda *inputs: call(*inputs)["loss"], matches)


def transition_probs(transitions: Tensor) -> Tensor:
    """Probabilities (B, T, T) of the transitions to later vertices; the last vertex has none."""
    earlier = torch.ones_like(transitions[:, :-1]).tril().bool()
    probs = transitions[:, :-1].masked_fill(earlier, -torch.inf).softmax(2)
    return torch.nn.functional.pad(probs, (0, 0, 0, 1))


@dataclass(frozen=True)
class Peer:
    """A published loss.

    ``commit`` is the version that the adapter was written for, ``stand_ins`` are imports that it does not need,
    ``orders`` those of the n-grams that the published loss counts, and ``family`` says what its models emit.
    """

    name: str
    repository: str
    commit: str
    file: str
    adapter: Callable[[Any], Loss]
    stand_ins: dict[str, dict[str, object]] = field(default_factory=dict)
    orders: tuple[int, ...] = tuple(ORDERS)
    family: str = "rows"


PEERS = {
    "--authors": Peer(
        "authors' code of the bound",
        "deeppavlov/expected_bleu",
        "0894477",
        "modules/expectedMultiBleu.py",
        authors,
        {
            "modules.matrixBLEU": {},
            "modules.utils": {
                "CUDA_wrapper": lambda tensor: tensor,
                "LongTensor": torch.LongTensor,
                "FloatTensor": torch.FloatTensor,
            },
        },
    ),
    "--debleu": Peer("DEBLEU", "wwt17/Seq2Seq-PyTorch", "73f2e5e", "criterions/expectedBLEUave.py", debleu),
    "--eisl": Peer(
        "EISL",
        "guangyliu/EISL",
        "2361af8",
        "NAT/EISL_nat.py",
        eisl,
        {"fairseq": {}, "fairseq.criterions": {}, "fairseq.dataclass": {}, "omegaconf": {}},
    ),
    "--bon": Peer(
        "BoN, bigrams",
        "ictnlp/BoN-NAT",
        "45cf42c",
        "model.py",
        bon,
        {"ipdb": {}, "utils": {}, "nltk": {}, "nltk.translate": {}, "nltk.translate.gleu_score": {}},
        orders=(2,),
    ),
    "--nmla": Peer(
        "NMLA, bigrams",
        "ictnlp/NMLA-NAT",
        "62c4d87",
        "fairseq/criterions/nat_loss.py",
        nmla,
        {
            "fairseq": {"utils": types.SimpleNamespace(fill_with_neg_inf=lambda tensor: tensor.fill_(-torch.inf))},
            "fairseq.criterions": {},
        },
        orders=(2,),
        family="ctc",
    ),
    "--fadat": Peer(
        "FA-DAT, bigrams",
        "ictnlp/FA-DAT",
        "3599a30",
        "fs_plugins/criterions/nat_dag_loss_ngram.py",
        fa_dat,
        {
            "fairseq": {},
            "fairseq.criterions": {},
            "fs_plugins.custom_ops": {},
            "fs_plugins.criterions.utilities": {},
            "fs_plugins.criterions.pass_prob": {},
        },
        orders=(2,),
        family="graph",
    ),
}


class StandIn:
    """A base class, a value, or a decorator that changes nothing."""

    def __init__(self, *_: object) -> None:
        pass

    def __call__(self, decorated: object) -> object:
        return decorated


def stand_in(name: str, values: dict[str, object]) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__.update(values, __getattr__=lambda _: StandIn)
    return module


def load(option: str, folder: Path, inputs: tuple[Tensor, ...]) -> Loss:
    """The loss of a folder, tried on inputs. A missing or unusable file ends the program with one line."""
    peer = PEERS[option]
    path = folder / peer.file
    origin = f"github.com/{peer.repository}, for example at {peer.commit}"
    if not path.is_file():
        raise SystemExit(f"{option}: there is no {peer.file} in {folder}; give a clone of {origin}")
    module = types.ModuleType("peer")
    module.__package__ = ".".join(Path(peer.file).parent.parts)  # relative imports find their stand-ins
    replaced = {name: stand_in(name, values) for name, values in peer.stand_ins.items()}
    try:
        with patch.dict(sys.modules, replaced | {module.__name__: module}), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the age of the code
            exec(compile(path.read_text(encoding="utf-8"), path, "exec"), module.__dict__)
        loss = peer.adapter(module)
        loss.step(*inputs)
    except Exception as error:
        raise SystemExit(f"{option}: {path} cannot be used, {error!r}; give a clone of {origin}") from error
    return loss


def describe(option: str, folder: Path) -> dict[str, object]:
    """Where a file comes from and what it counts; the blob is what ``git hash-object`` prints."""
    peer = PEERS[option]
    content = (folder / peer.file).read_bytes()
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    return {"repository": peer.repository, "file": peer.file, "blob": blob, "orders": peer.orders}
