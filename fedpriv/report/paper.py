"""Text, tables and lines on A4 paper as PDF: measured before they are set, so that nothing spills.

Two writings of the same text are the same bytes: there is no time in the file.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

WIDTH, HEIGHT = 595.0, 842.0  # points, of A4
LEFT, RIGHT, TOP, BOTTOM = 48.0, 547.0, 796.0, 56.0
INK, SOFT, LINE = "#1d2733", "#55606d", "#c5ccd4"
LEADING = 1.38  # of a line, in its size
MEASURED = 100  # points, of the type that is measured
GAP = 7.0  # between the columns of a table


@dataclass(frozen=True)
class Text:
    """A line of text as it stands on a page, from its left end and its base line."""

    page: int
    x: float
    y: float
    words: str
    size: float
    colour: str = INK
    bold: bool = False

    @property
    def end(self) -> float:
        return self.x + width(self.words, self.size, self.bold)


@dataclass
class Paper:
    """Pages that fill from above; `scale` makes every size smaller."""

    scale: float = 1.0
    page: int = 0
    y: float = TOP
    texts: list[Text] = field(default_factory=list)
    lines: list[tuple[int, float, float, float, str]] = field(default_factory=list)
    boxes: list[tuple[int, float, float, str]] = field(default_factory=list)

    @property
    def pages(self) -> int:
        return self.page + 1

    def room(self, height: float) -> None:
        """Go on to the next page where there is no room left on this one."""
        if self.y - height < BOTTOM:
            self.new_page()

    def new_page(self) -> None:
        self.page, self.y = self.page + 1, TOP

    def skip(self, points: float) -> None:
        self.y -= points * self.scale

    def rule(self, colour: str = LINE, left: float = LEFT, right: float = RIGHT) -> None:
        self.lines.append((self.page, left, right, self.y, colour))

    def put(self, words: str, x: float, size: float, colour: str = INK, bold: bool = False) -> None:
        """One line, which must fit, at the height where the paper stands."""
        self.texts.append(Text(self.page, x, self.y, words, size, colour, bold))

    def heading(self, words: str) -> None:
        self.skip(9)
        self.room(48 * self.scale)
        self.skip(11)
        self.put(words, LEFT, 10.5 * self.scale, bold=True)
        self.skip(4)
        self.rule()
        self.skip(3)

    def paragraph(
        self,
        words: str,
        size: float = 8.6,
        colour: str = INK,
        bold: bool = False,
        left: float = LEFT,
        right: float = RIGHT,
    ) -> None:
        size *= self.scale
        for line in wrapped(words, right - left, size, bold):
            self.room(size * LEADING)
            self.y -= size * LEADING
            self.put(line, left, size, colour, bold)

    def banner(self, words: Sequence[tuple[str, float, bool]], colour: str, back: str) -> None:
        """Lines on a coloured ground, as wide as the page."""
        left, right = LEFT + 12, RIGHT - 12
        height = 16.0 * self.scale
        for text, size, bold in words:
            lines = wrapped(text, right - left, size * self.scale, bold)
            height += len(lines) * size * self.scale * LEADING
        self.boxes.append((self.page, self.y - height, self.y, back))
        self.y -= 5 * self.scale
        for number, (text, size, bold) in enumerate(words):
            tone = colour if number == 0 else INK
            self.paragraph(text, size, tone, bold, left, right)
        self.y -= 11 * self.scale

    def table(
        self,
        columns: Sequence[tuple[str, float]],
        rows: Sequence[Sequence[str]],
        colours: Sequence[str] = (),
        size: float = 7.6,
    ) -> None:
        """Columns with their share of the width; `colours` are those of the first cells of rows."""
        size *= self.scale
        total = sum(share for _, share in columns)
        places, x = [], LEFT
        for _, share in columns:
            step = share / total * (RIGHT - LEFT)
            places.append((x, step - GAP))
            x += step
        names = [name for name, _ in columns]
        if any(names):
            self._row(places, names, size, [SOFT] * len(names))
            self.skip(1.5)
        for number, row in enumerate(rows):
            ink = [colours[number] if number < len(colours) else INK, *[INK] * (len(row) - 1)]
            self._row(places, row, size, ink, bool(colours))

    def _row(
        self,
        places: Sequence[tuple[float, float]],
        cells: Sequence[str],
        size: float,
        colours: Sequence[str],
        first_bold: bool = False,
    ) -> None:
        bold = [first_bold and number == 0 for number in range(len(cells))]
        sets = [
            wrapped(cell, room, size, heavy)
            for cell, (_, room), heavy in zip(cells, places, bold, strict=True)
        ]
        height = max(len(lines) for lines in sets) * size * LEADING
        self.room(height + 3)
        top = self.y
        for lines, (x, _), colour, heavy in zip(sets, places, colours, bold, strict=True):
            self.y = top
            for line in lines:
                self.y -= size * LEADING
                self.put(line, x, size, colour, heavy)
        self.y = top - height - 2.6 * self.scale
        self.rule()

    def pdf(self, title: str, foot: str) -> bytes:
        """The pages as a file, each with a foot line."""
        import matplotlib
        from matplotlib.backends.backend_pdf import PdfPages
        from matplotlib.figure import Figure

        stream = io.BytesIO()
        about: Any = {"Title": title, "Creator": "fedpriv", "Producer": None, "CreationDate": None}
        with (
            matplotlib.rc_context({"pdf.fonttype": 42, "font.family": "DejaVu Sans"}),
            PdfPages(stream, metadata=about) as file,
        ):
            for number in range(self.pages):
                figure = Figure(figsize=(WIDTH / 72, HEIGHT / 72))
                self._draw(figure, number)
                last = f"page {number + 1} of {self.pages}"
                _set(figure, Text(number, LEFT, 34, foot, 6.5, SOFT))
                edge = RIGHT - width(last, 6.5)
                _set(figure, Text(number, edge, 34, last, 6.5, SOFT))
                file.savefig(figure)
        return stream.getvalue()

    def _draw(self, figure: Any, number: int) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Rectangle

        for page, low, high, colour in self.boxes:
            if page == number:
                corner, size = (LEFT / WIDTH, low / HEIGHT), (RIGHT - LEFT, high - low)
                box = Rectangle(
                    corner,
                    size[0] / WIDTH,
                    size[1] / HEIGHT,
                    color=colour,
                    lw=0,
                    transform=figure.transFigure,
                )
                figure.add_artist(box)
        for page, left, right, y, colour in self.lines:
            if page == number:
                ends = [left / WIDTH, right / WIDTH], [y / HEIGHT, y / HEIGHT]
                figure.add_artist(Line2D(*ends, color=colour, lw=0.6))
        for text in self.texts:
            if text.page == number:
                _set(figure, text)


def _set(figure: Any, text: Text) -> None:
    figure.text(
        text.x / WIDTH,
        text.y / HEIGHT,
        text.words,
        fontsize=text.size,
        color=text.colour,
        weight="bold" if text.bold else "normal",
        parse_math=False,
    )


@lru_cache(maxsize=2)
def _font(bold: bool) -> Any:
    from matplotlib.font_manager import FontProperties, findfont
    from matplotlib.ft2font import FT2Font

    place = findfont(FontProperties("DejaVu Sans", weight="bold" if bold else "normal"))
    found = FT2Font(place)  # our own: matplotlib changes the size of those that it shares
    found.set_size(MEASURED, 72)
    return found


@lru_cache(maxsize=2000)
def _advance(letter: str, bold: bool) -> float:
    """How far a letter of size 1 moves the pen; pairs of letters only ever come closer."""
    from matplotlib.ft2font import LoadFlags

    glyph = _font(bold).load_char(ord(letter), flags=LoadFlags.NO_HINTING)
    return float(glyph.linearHoriAdvance) / 65536 / MEASURED


def width(words: str, size: float, bold: bool = False) -> float:
    """How wide a text is, in points."""
    return size * sum(_advance(letter, bold) for letter in words)


def wrapped(words: str, room: float, size: float, bold: bool = False) -> list[str]:
    """The text in lines that are no wider than the room; a word that is wider is cut."""
    lines: list[str] = []
    line, used = "", 0.0
    space = width(" ", size, bold)
    for word in words.split() or [""]:
        wide = width(word, size, bold)
        if line and used + space + wide <= room:
            line, used = f"{line} {word}", used + space + wide
            continue
        if line:
            lines.append(line)
        *whole, line = pieces(word, room, size, bold)
        lines += whole
        used = width(line, size, bold)
    return [*lines, line]


def pieces(word: str, room: float, size: float, bold: bool) -> list[str]:
    """A word in parts that fit, of one letter at least."""
    found, used = [""], 0.0
    for letter in word:
        wide = width(letter, size, bold)
        if found[-1] and used + wide > room:
            found.append("")
            used = 0.0
        found[-1] += letter
        used += wide
    return found
