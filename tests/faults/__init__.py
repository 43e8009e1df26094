"""Fault injection: random calls, enumerated cases, kills and damaged files, each drawn from a seed.

A part is a module with a function ``check(seed)`` (or a class that prepares what its checks share): None if the case of
that seed survived, otherwise what went wrong. ``python -m tests.faults`` runs them all and prints how many survived.
"""
