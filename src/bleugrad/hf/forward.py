"""Hooks that record the inputs of the model: the trainer passes only its outputs and the labels to the loss."""

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bleugrad.hf.counting import IGNORED

FUSED_HINT = "leave fused=True out"
NO_DECODER_INPUTS = (
    "the batch has no decoder_input_ids, and the trainer removes the labels before the forward pass, so the model has "
    "nothing to decode; pass data_collator=bleugrad.hf.BLEUCollator(tokenizer, model), also with --pad_to_max_length"
)

_DETACH: weakref.WeakKeyDictionary[nn.Module, Any] = weakref.WeakKeyDictionary()
"""For each model with hooks, the function that removes them."""


class ForwardInputs(NamedTuple):
    """What one forward pass was given, and whether its logits were projected."""

    decoder_inputs: Tensor | None
    references: Tensor | None
    packed: bool
    projected: bool


class ForwardWatch:
    """Hooks of a model that record its inputs and remove ``references``, which no model accepts.

    A model has the hooks of one watch at most: a new watch detaches the one before. The hooks hold the watch weakly, so
    they are removed with it.

    With ``fused``, a training pass projects one row only, and ``outputs.logits`` holds the hidden states (B, T, H).
    Evaluation and generation do not change. With ``decoder_inputs``, the decoder must be fed the labels, shifted by one
    position.
    """

    def __init__(self, model: Any, fused: bool, decoder_inputs: bool) -> None:
        self.decoder_inputs = decoder_inputs
        self.inputs: ForwardInputs | None = None
        self.head = _checked_head(model) if fused else None
        # the part that adds a bias to the projected rows; it is inside the model if that is wrapped, as by PEFT
        self.biased = next((part for part in model.modules() if hasattr(part, "final_logits_bias")), None)
        self._skip, self._checked = False, False
        self._hidden: Tensor | None = None
        self._row: Tensor | None = None
        if model in _DETACH:
            _DETACH[model]()
        handles = [
            model.register_forward_pre_hook(_weak(self._before), with_kwargs=True),
            # first, so that the hooks of FSDP see the hidden states, through which the gradient flows
            model.register_forward_hook(_weak(self._after), prepend=True, always_call=True),
        ]
        if self.head is not None:
            handles.append(self.head.register_forward_pre_hook(_weak(self._before_head)))
            handles.append(self.head.register_forward_hook(_weak(self._after_head)))
        self.detach = weakref.finalize(self, lambda: [handle.remove() for handle in handles])
        _DETACH[model] = self.detach

    def take(self) -> ForwardInputs:
        """The last forward pass. It can be taken once."""
        if not self.detach.alive:
            raise RuntimeError("a newer BLEULoss was made for the same model; use that one, or make this one last")
        if self.inputs is None:
            raise RuntimeError(
                "BLEULoss was called without a forward pass of the model it was made for; expected the model that the "
                "trainer runs, and one call after each forward pass"
            )
        inputs, self.inputs = self.inputs, None
        return inputs

    def check(self, inputs: ForwardInputs, rows: Tensor, labels: Tensor) -> None:
        """Raise unless there is a row of logits or hidden states (B, T, ...) for each label (B, T)."""
        if rows.dim() != 3 or rows.shape[:2] != labels.shape:
            raise ValueError(
                f"logits have shape {tuple(rows.shape)} and labels {tuple(labels.shape)}; expected a row of logits for "
                "each label. Was the batch made without decoder_input_ids? bleugrad.hf.BLEUCollator makes them"
            )
        if inputs.packed:
            raise ValueError(
                "a row of the batch holds several sequences; expected no packing, and no padding-free batches"
            )
        if not self.decoder_inputs:
            return
        if (fed := inputs.decoder_inputs) is None:
            raise ValueError(NO_DECODER_INPUTS)
        before = labels[:, :-1].to(fed.device)
        if fed.shape != labels.shape or ((before != IGNORED) & (fed[:, 1:] != before)).any():
            raise ValueError(
                "decoder_input_ids are not the labels shifted right by one position; use bleugrad.hf.BLEUCollator, or "
                "check_decoder_inputs=False if they are changed on purpose"
            )

    def projection(self, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        """The weight and bias that turn hidden states into logits, in the type that autocast gave the hidden states."""
        assert self.head is not None
        weight, bias = self.head.weight, self.head.bias
        if type(weight).__name__ == "DTensor" or weight.dim() != 2:
            raise ValueError(f"fused is True, but the parameters of the model are sharded; {FUSED_HINT}")
        final = getattr(self.biased, "final_logits_bias", None)
        if final is not None and (final != 0).any():
            bias = final.flatten() if bias is None else bias + final.flatten()
        return weight.to(dtype), None if bias is None else bias.to(dtype)

    def _before(self, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, Any]:
        references = kwargs.pop("references", None)
        training = module.training and torch.is_grad_enabled() and "labels" not in kwargs
        fed = any(kwargs.get(name) is not None for name in ("decoder_input_ids", "decoder_inputs_embeds"))
        if self.decoder_inputs and training and "input_ids" in kwargs and not fed:
            raise ValueError(NO_DECODER_INPUTS)
        self._skip = training and self.head is not None
        self.inputs = ForwardInputs(kwargs.get("decoder_input_ids"), references, _is_packed(kwargs), not self._skip)
        return args, kwargs

    def _before_head(self, head: nn.Module, args: tuple[Tensor]) -> tuple[Tensor] | None:
        # the hidden states of a fused pass are kept for the loss; one row is enough for the model's own projection
        if not self._skip:
            return None
        self._hidden = args[0]
        return (args[0][:1, :1],)

    def _after_head(self, head: nn.Module, args: Any, row: Tensor) -> None:
        if self._skip:
            self._row = row

    def _after(self, module: nn.Module, args: Any, output: Any) -> None:
        skipped, hidden, row = self._skip, self._hidden, self._row
        self._skip, self._hidden, self._row = False, None, None
        if not skipped or output is None:  # None after an error in the model
            return
        if hidden is None or row is None or not (self._checked or self._is_projected(row, output["logits"])):
            raise ValueError(
                "fused is True, but the model changes its logits after the output projection (a cap or a scale); "
                + FUSED_HINT
            )
        self._checked = True
        output["logits"] = hidden.to(torch.promote_types(hidden.dtype, output["logits"].dtype))

    def _is_projected(self, row: Tensor, logits: Tensor) -> bool:
        """Whether the model's logits are the row that its projection made, plus its bias."""
        final = getattr(self.biased, "final_logits_bias", None)
        return torch.equal(logits.float(), (row if final is None else row + final).float())


def _weak(method: Callable[..., Any]) -> Callable[..., Any]:
    """A hook that calls a method as long as its object exists."""
    reference = weakref.WeakMethod(method)

    def hook(*args: Any) -> Any:
        found = reference()
        return None if found is None else found(*args)

    return hook


def _checked_head(model: Any) -> nn.Linear:
    head = model.get_output_embeddings()
    if not isinstance(head, nn.Linear):
        found = "none" if head is None else f"{type(head).__module__}.{type(head).__name__}"
        raise ValueError(
            f"fused is True, but the model's output projection is {found}; expected a torch.nn.Linear, not adapted by "
            f"PEFT; {FUSED_HINT}"
        )
    return head


def _is_packed(kwargs: dict[str, Any]) -> bool:
    """Whether a row holds several sequences: its positions then begin again."""
    positions = kwargs.get("position_ids")
    if positions is None or kwargs.get("attention_mask") is not None:
        return False
    return bool((positions[..., 1:] < positions[..., :-1]).any())
