"""`papers.md`: every table and figure of the papers in one row, made of items and CSV files."""

from collections.abc import Sequence
from pathlib import Path

from fedpriv.simulations.reproduce.experiment import (
    USUAL,
    Experiment,
    Item,
    Paper,
    compared,
    concluded,
    table_name,
)
from fedpriv.simulations.reproduce.trial import hours_of, too_long
from fedpriv.tables import Row, read_table, rows_in

OPEN = ("not done", "nothing to test")  # verdicts without a measurement
HEAD = ("where", "claim", "test", "result", "verdict", "command")
INTRO = """# The papers, tested

Every table and figure of the five papers has a row. *Reproduced* means that an experiment which
could have shown the opposite agrees with the claim, *refuted* that it disagrees, *undecided* that
its interval holds both, or that it has fewer than three seeds. *Not done* gives the reason.
*Nothing to test* is a drawing, a list of settings, a picture without a number, or what another
row tests. A verdict is about the data and sizes that stand beside it; they are smaller than the
paper's, and where they are others (digits for faces) the row says so. Intervals are 95 % over
seeds (Student's t on values paired by seed); `n` are the samples that attacks are scored on. A
*blind* attacker does not know the defence, an *informed* one does. The figures behind a row, with
the blind guess and the majority class beside them, are in `docs/measured/`. The last section is a
question of ours: codes or updates?

This page is made by `make manual` and by `fedpriv reproduce`, from the catalogue in
`simulations/reproduce/papers` and the CSV files."""


def page(papers: Sequence[Paper], tables: Path) -> str:
    """The page, of the CSV files in the folder `tables`."""
    parts = [INTRO, "", counted(papers, tables)]
    for paper in papers:
        parts += ["", f"## {paper.name}", "", paper.reference, ""]
        parts += [line(HEAD), line(["---"] * len(HEAD))]
        parts += [
            line(cells(paper, item, rows, profile, too_long(item.experiment, tables)))
            for item in paper.items
            for profile, rows in measured(item, tables)
        ]
        if rules := [f"- `{one.name}`: {one.rule}" for one in paper.experiments]:
            parts += ["", "How settings were chosen:", "", *rules]
        if tried := [told for one in paper.experiments if (told := hours_of(one.name, tables))]:
            parts += ["", "The papers' own settings, tried with `--profile paper --trial`:", ""]
            parts += [f"- {told}." for told in tried]
    return "\n".join(parts) + "\n"


def counted(papers: Sequence[Paper], tables: Path) -> str:
    """How many rows there are of each verdict."""
    verdicts = [
        concluded(item, rows).verdict
        for paper in papers
        for item in paper.items
        for _, rows in measured(item, tables)
    ]
    each = [f"{verdicts.count(one)} {one}" for one in dict.fromkeys(sorted(verdicts))]
    return f"{len(verdicts)} rows: {', '.join(each)}."


def measured(item: Item, tables: Path) -> list[tuple[str, list[Row]]]:
    """The rows of the small profile, and those of the paper's where it was run."""
    found = [(USUAL, judged(item, tables))]
    if large := judged(item, tables, "paper"):
        found.append(("paper", large))
    return found


def judged(item: Item, tables: Path, profile: str = USUAL) -> list[Row]:
    """What an item's judge is given; none without its own experiment, or the one beside it."""
    parts = [rows_of(name, tables, profile) for name in (item.experiment, item.beside) if name]
    return [row for rows in parts for row in rows] if all(parts) else []


def rows_of(experiment: str, tables: Path, profile: str = USUAL) -> list[Row]:
    path = tables / table_name(experiment, profile)
    return rows_in(read_table(path)) if experiment and path.exists() else []


def cells(
    paper: Paper, item: Item, rows: Sequence[Row], profile: str, hours: str = ""
) -> list[str]:
    """One row of the page; `hours` is what a trial said of its experiment."""
    found = concluded(item, rows, hours)
    own = compared(item, rows)
    named = {one.name: one for one in paper.experiments}
    claim = item.claim + (f" Paper: {item.figures}." if item.figures else "")
    done = found.verdict not in OPEN
    verdict = f"**{found.verdict}**" if done else f"{found.verdict}: {found.result}"
    if found.against:
        verdict += f" ({found.against})"
    command = item.decide or (
        f"fedpriv reproduce {item.experiment} --profile {profile}" if item.experiment else ""
    )
    return [
        item.where + (f", profile {profile}" if profile != USUAL else ""),
        claim,
        tested(named[item.experiment], own, profile) if done else "",
        found.result if done else "",
        verdict,
        f"`{command}`" if command else "",
    ]


def tested(experiment: Experiment, rows: Sequence[Row], profile: str) -> str:
    """Data, model, n, seeds and minutes in words."""
    seeds = sorted({int(row["seed"]) for row in rows})
    counts = sorted({int(row["n"]) for row in rows if row.get("n")})
    samples = []
    if counts:
        samples.append(f"n {' to '.join(dict.fromkeys(map(str, (counts[0], counts[-1]))))}")
    tests = sorted({int(row["tests"]) for row in rows if row.get("tests")})
    if tests:
        samples.append(f"{tests[-1]} test samples")
    minutes = sum(float(row.get("minutes", 0)) for row in rows)
    about = experiment.about if profile == USUAL else "the paper's settings"
    parts = [about or experiment.scenario, *samples]
    return "; ".join([*parts, f"seeds {', '.join(map(str, seeds))}", f"{minutes:.0f} min"])


def line(cells: Sequence[str]) -> str:
    return (
        "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
    )
