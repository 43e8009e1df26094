"""Every option has an effect: a value other than its default changes what is observed, or is refused by name."""

import inspect


def check_options(kind, observe, changes, required=()):
    """``changes`` maps each option to ``(base, value)``: other options that it needs, and a value of its own.

    ``required`` are arguments without a default. No other argument is exempt.
    """
    parameters = inspect.signature(kind).parameters
    assert {name for name, one in parameters.items() if one.default is one.empty} == set(required)
    assert set(changes) == set(parameters) - set(required)
    for name, (base, value) in changes.items():
        assert observe(**base) != observed_or_refused(observe, name, base | {name: value}), name


def observed_or_refused(observe, name, options):
    """What is observed, or "refused" if an error names the option."""
    try:
        return observe(**options)
    except (ValueError, TypeError) as error:
        if name in str(error):
            return "refused"
        raise
