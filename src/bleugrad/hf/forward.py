"""What the trainer fed to the model, seen by hooks of the model: the trainer passes only outputs and labels on."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

FUSED_HINT = "leave fused=True out"


@dataclass(frozen=True)
class Seen:
    """One forward pass: the decoder's inputs, the references of the batch, and whether the projection was left out."""

    decoder_inputs: Tensor | None
    references: Tensor | None
    packed: bool
    projected: bool


class ForwardWatch:
    """Hooks of a model that note what it was given, and take ``references`` out, which no model knows.

    With ``fused``, a training pass leaves the output projection to the loss: ``outputs.logits`` then holds the hidden
    states (B, T, H). Evaluation and generation run as ever.
    """

    def __init__(self, model: Any, fused: bool) -> None:
        self.model = model
        self.seen: Seen | None = None
        self.head = _checked_head(model) if fused else None
        self._bypassed = False
        self._replaced: dict[str, Any] = {}
        self._bias: Tensor | None = None
        self._hidden: Tensor | None = None
        self._checked = False
        model.register_forward_pre_hook(self._before, with_kwargs=True)
        model.register_forward_hook(self._after, with_kwargs=True, always_call=True)

    def take(self) -> Seen:
        """The last forward pass, which can be taken once."""
        if self.seen is None:
            raise RuntimeError(
                "BLEULoss was called without a forward pass of the model it was made for; expected the model that the "
                "trainer runs, and one call after each forward pass"
            )
        seen, self.seen = self.seen, None
        return seen

    def projection(self, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        """The weight and the bias that turn hidden states into logits, in the type of these, as autocast has it."""
        assert self.head is not None
        weight = self.head.weight
        if type(weight).__name__ == "DTensor" or weight.dim() != 2:
            raise ValueError(f"fused is True, but the parameters of the model are sharded; {FUSED_HINT}")
        bias = self.head.bias
        final = getattr(self.model, "final_logits_bias", None)
        if final is not None and (final != 0).any():
            bias = final.flatten() if bias is None else bias + final.flatten()
        return weight.to(dtype), None if bias is None else bias.to(dtype)

    def _before(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        references = kwargs.pop("references", None)
        leave_out = self.head is not None and module.training and torch.is_grad_enabled() and "labels" not in kwargs
        self.seen = Seen(kwargs.get("decoder_input_ids"), references, _is_packed(kwargs), not leave_out)
        if leave_out:
            self._bypass_head()
        return args, kwargs

    def _after(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if not self._bypassed:
            return
        self._restore_head()
        hidden, self._hidden = self._hidden, None
        if not self._checked and output is not None:
            if hidden is None or not torch.equal(output.logits.float(), hidden.float()):
                raise ValueError(
                    "fused is True, but the model changes its logits after the output projection (a cap or a scale); "
                    + FUSED_HINT
                )
            self._checked = True

    def _bypass_head(self) -> None:
        attributes = vars(self.head)
        self._replaced = {"forward": attributes["forward"]} if "forward" in attributes else {}
        attributes["forward"] = self._pass_on
        self._bypassed = True
        bias = getattr(self.model, "final_logits_bias", None)
        if bias is not None:  # added by the model to what the projection gives: (1, V) does not fit (B, T, H)
            self._bias, self.model.final_logits_bias = bias, bias.new_zeros(1, 1)

    def _restore_head(self) -> None:
        attributes = vars(self.head)
        del attributes["forward"]
        attributes.update(self._replaced)
        self._bypassed = False
        if self._bias is not None:
            self.model.final_logits_bias, self._bias = self._bias, None

    def _pass_on(self, hidden: Tensor) -> Tensor:
        if not self._checked:
            self._hidden = hidden.detach()
        return hidden


def _checked_head(model: Any) -> nn.Linear:
    head = model.get_output_embeddings()
    if not isinstance(head, nn.Linear):
        found = "none" if head is None else type(head).__name__
        raise ValueError(f"fused is True, but the model's output projection is {found}; expected a torch.nn.Linear")
    return head


def _is_packed(kwargs: dict[str, Any]) -> bool:
    """Whether a row holds several sequences, which shows in positions that begin again."""
    positions = kwargs.get("position_ids")
    if positions is None or kwargs.get("attention_mask") is not None:
        return False
    return bool((positions[..., 1:] < positions[..., :-1]).any())
