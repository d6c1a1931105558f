"""What commands print on: wrapped where somebody reads, whole where a program does."""

from rich.console import Console, ConsoleDimensions

PIPED = 100_000  # columns: no line of a table is ever as long


class Terminal(Console):
    """A console whose tables wrap on a screen and are never cut or wrapped in a pipe or a file."""

    @property  # type: ignore[misc]  # rich has a setter, which nothing here uses
    def size(self) -> ConsoleDimensions:
        found = super().size
        return found if self.is_terminal else ConsoleDimensions(PIPED, found.height)


out, err = Terminal(), Terminal(stderr=True)
