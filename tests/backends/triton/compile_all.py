"""Compiles every kernel for a GPU that need not be there: ``python -m tests.backends.triton.compile_all cuda 90``."""

import importlib
import inspect
import pkgutil
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import bleugrad.backends.triton as package

TYPES = {
    "*i64": "ids targets lengths clips spans order limits more starts numbers counts closed support wanted "
    "new_limits values places",
    "*i1": "word_start overlaps valid continued",
    "*fp64": "mass state spectra grad_mass",
    "*bf16": "logits",
    "i32": "steps size number chosen batch columns orders references width vocabulary words long most eos sizes",
    "fp32": "smoothing",
}
KINDS = {name: kind for kind, names in TYPES.items() for name in names.split()}
SPECIAL = {
    ("row_gradient_kernel", "out"): "*bf16",
    ("match_totals_kernel", "boundary"): "*fp32",
    ("product_kernel", "out"): "*fp64",
    ("others_kernel", "out"): "*fp64",
    ("others_kernel", "grad"): "*fp64",
    ("product_kernel", "numbers"): "i32",
    ("others_kernel", "numbers"): "i32",
    ("row_windows_kernel", "lengths"): "*fp32",
    ("corpus_bleu_kernel", "lengths"): "*i64",
    ("frame_matches_kernel", "targets"): "i32",
    ("frame_matches_gradient_kernel", "targets"): "i32",
}
OPTIONAL = {
    "close_up_kernel": "values",
    "corpus_bleu_kernel": "mass",
    "corpus_bleu_gradient_kernel": "grad_mass",
    "exact_matches_kernel": "alive opening spans",
    "exact_matches_gradient_kernel": "alive opening spans",
    "match_totals_kernel": "boundary support",
    "match_totals_gradient_kernel": "boundary support grad_boundary of_totals",
    "row_probabilities_kernel": "targets word_start",
    "row_gradient_kernel": "targets word_start grad_log_probs grad_opening",
    "row_windows_kernel": "opening order more",
    "row_windows_gradient_kernel": "opening order more of_alive of_survival of_stop of_lengths of_opened "
    "of_boundary grad_opening",
    "word_counts_kernel": "alive stop",
    "word_counts_gradient_kernel": "alive stop grad_alive grad_stop",
}
"""Arguments that may be None, which the flags tell."""
CONSTANTS = {"WEIGHTS": (0.25,) * 4, "BLOCK": 64, "OTHER": 64, "COLUMNS": 64}


def kernels():
    """Name to function of all that are launched."""
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        for name, found in vars(importlib.import_module(module.name)).items():
            if name.endswith("_kernel"):
                yield name, found


def compiled(name, kernel, target, full):
    """Its assembly by kind, with all options on, or with as few as possible."""
    signature, constants = {}, {}
    for argument, parameter in inspect.signature(kernel.fn).parameters.items():
        if argument.isupper():
            signature[argument], constants[argument] = "constexpr", CONSTANTS.get(argument, full)
            assert parameter.annotation is not inspect.Parameter.empty
        elif not full and argument in OPTIONAL.get(name, "").split():
            signature[argument], constants[argument] = "constexpr", None
        else:
            signature[argument] = SPECIAL.get((name, argument), KINDS.get(argument, "*fp32"))
    return triton.compile(ASTSource(fn=kernel, signature=signature, constexprs=constants), target=target).asm


if __name__ == "__main__":
    kind, arch, *chosen = sys.argv[1:]
    target = GPUTarget(kind, int(arch) if arch.isdigit() else arch, 64 if kind == "hip" else 32)
    for name, kernel in kernels():
        if not chosen or name in chosen:
            for full in (True, False) if name in OPTIONAL else (True,):
                assert compiled(name, kernel, target, full)["hsaco" if kind == "hip" else "cubin"], name
            print(name)
