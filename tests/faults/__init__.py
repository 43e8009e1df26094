"""Fault injection: random calls, enumerated cases, kills and damaged files, each drawn from a seed.

A part is a module with a function ``prepare(folder)``. It returns ``check(seed)``, which returns None if the case of
that seed survived and otherwise says what went wrong. ``python -m tests.faults`` runs all parts and prints how many
cases survived.
"""
