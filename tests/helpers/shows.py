"""A show for tests: it shows nothing."""

from rich.console import Console

from fedpriv.simulations.federation.progress import PlainLines


def quiet() -> PlainLines:
    """What `simulate` and `run_all` are given where nobody looks."""
    return PlainLines(Console(quiet=True))
