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
    "*i64": "ids targets lengths clips spans limits ends order starts numbers counts places",
    "*i1": "word_start overlaps continued",
    "*bf16": "logits",
    "fp32": "sharpness",
    "i32": "steps size number chosen batch columns orders references width vocabulary words extra",
}
KINDS = {name: kind for kind, names in TYPES.items() for name in names.split()}
SPECIAL = {
    ("row_gradient_kernel", "out"): "*bf16",
    ("frame_matches_kernel", "targets"): "i32",
    ("frame_matches_gradient_kernel", "targets"): "i32",
}
OPTIONAL = {
    "exact_matches_kernel": "alive opening spans",
    "exact_matches_gradient_kernel": "alive opening spans",
    "row_probabilities_kernel": "targets word_start",
    "row_gradient_kernel": "targets word_start grad_log_probs grad_opening grad_means",
    "word_counts_kernel": "alive stop",
    "word_counts_gradient_kernel": "alive stop grad_alive grad_stop",
}
"""Arguments that may be None, which the flags tell."""
CONSTANTS = {"BLOCK": 64, "OTHER": 64, "COLUMNS": 64}


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
