"""Hooks that record the inputs of the model: the trainer passes only its outputs and the labels to the loss."""

import weakref
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

FUSED_HINT = "leave fused=True out"
NO_DECODER_INPUTS = (
    "the batch has no decoder_input_ids, and the trainer removes the labels before the forward pass, so the model has "
    "nothing to decode; pass data_collator=bleugrad.hf.BLEUCollator(tokenizer, model), also with --pad_to_max_length"
)

_DETACH: weakref.WeakKeyDictionary[nn.Module, Any] = weakref.WeakKeyDictionary()
"""For each model with hooks, the function that removes them."""


class ForwardInputs(NamedTuple):
    """One forward pass: the decoder's inputs, the references, whether rows are packed and whether logits were made.

    ``source`` are ``input_ids`` and ``attention_mask``, as far as they were given.
    """

    decoder_inputs: Tensor | None
    references: Tensor | None
    packed: bool
    projected: bool
    source: dict[str, Tensor]


class ForwardWatch:
    """Hooks of a model that record its inputs and remove ``references``, which no model accepts.

    A model has the hooks of one watch at most: a new watch detaches the one before. The hooks hold the watch weakly, so
    they are removed with it.

    With ``fused``, a training pass skips the output projection, and ``outputs.logits`` holds the hidden states
    (B, T, H). Evaluation and generation do not change. With ``decoder_inputs``, a training pass of an encoder-decoder
    model without decoder inputs is an error.
    """

    def __init__(self, model: Any, fused: bool, decoder_inputs: bool = False) -> None:
        self.model = model
        self.decoder_inputs = decoder_inputs
        self.inputs: ForwardInputs | None = None
        self.head = _checked_head(model) if fused else None
        # the module that adds a bias to the logits is inside the model where that is wrapped, as by PEFT
        self.biased = next((part for part in model.modules() if "final_logits_bias" in part._buffers), None)
        self._replaced: dict[str, Any] | None = None  # the head's own forward, if it has one, while it is bypassed
        self._bias: Tensor | None = None
        self._hidden: Tensor | None = None
        self._checked = False
        self.detach = self._attach()

    def _attach(self) -> Any:
        if self.model in _DETACH:
            _DETACH[self.model]()
        watch = weakref.ref(self)

        def before(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
            found = watch()
            return None if found is None else found._before(module, args, kwargs)

        def after(module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
            if (found := watch()) is not None:
                found._after(output)

        first = self.model.register_forward_pre_hook(before, with_kwargs=True)
        second = self.model.register_forward_hook(after, with_kwargs=True, always_call=True)
        _DETACH[self.model] = weakref.finalize(self, lambda: (first.remove(), second.remove()))
        return _DETACH[self.model]

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

    def projection(self, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
        """The weight and bias that turn hidden states into logits, in the type that autocast gave the hidden states."""
        assert self.head is not None
        weight = self.head.weight
        if type(weight).__name__ == "DTensor" or weight.dim() != 2:
            raise ValueError(f"fused is True, but the parameters of the model are sharded; {FUSED_HINT}")
        bias = self.head.bias
        final = None if self.biased is None else self.biased._buffers["final_logits_bias"]
        if final is not None and (final != 0).any():
            bias = final.flatten() if bias is None else bias + final.flatten()
        return weight.to(dtype), None if bias is None else bias.to(dtype)

    def _before(self, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, Any]:
        references = kwargs.pop("references", None)
        training = module.training and torch.is_grad_enabled() and "labels" not in kwargs
        fed = any(kwargs.get(name) is not None for name in ("decoder_input_ids", "decoder_inputs_embeds"))
        if self.decoder_inputs and training and "input_ids" in kwargs and not fed:
            raise ValueError(NO_DECODER_INPUTS)
        skip = training and self.head is not None
        source = {name: kwargs[name] for name in ("input_ids", "attention_mask") if kwargs.get(name) is not None}
        self.inputs = ForwardInputs(kwargs.get("decoder_input_ids"), references, _is_packed(kwargs), not skip, source)
        if skip:
            self._bypass_head()
        return args, kwargs

    def _after(self, output: Any) -> None:
        if self._replaced is None:
            return
        self._restore_head(self._replaced)
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
        self._replaced = {name: attributes[name] for name in attributes if name == "forward"}
        attributes["forward"] = self._pass_on
        if self.biased is not None:  # the model adds the bias to the projection's output: (1, V) does not fit (B, T, H)
            self._bias = self.biased._buffers["final_logits_bias"]
            assert self._bias is not None
            self.biased._buffers["final_logits_bias"] = self._bias.new_zeros(1, 1)

    def _restore_head(self, replaced: dict[str, Any]) -> None:
        del vars(self.head)["forward"]
        vars(self.head).update(replaced)
        self._replaced = None
        if self.biased is not None:
            self.biased._buffers["final_logits_bias"], self._bias = self._bias, None

    def _pass_on(self, hidden: Tensor) -> Tensor:
        if not self._checked:
            self._hidden = hidden.detach()
        return hidden


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
