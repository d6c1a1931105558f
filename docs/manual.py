"""The manual: Markdown pages made from the typed sections, the catalogues and the commands.

`python docs/manual.py` writes them into docs/manual; the docs build makes them anew.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

NOTE = "<!-- Made by `make manual` from the code. Change the code, not this page. -->"
FOLDER = Path(__file__).resolve().parent / "manual"
GIVE_UP = ("help", "install_completion", "show_completion")
KINDS = {
    "plugins": "Defences of clients: `[[plugins]]`. They act in the order of the file.",
    "attacks": "What a curious or malicious party tries: `[[attacks]]`.",
    "strategies": "How the server combines answers: `federation.strategy`. Options: `[strategy]`.",
    "malicious": "What a malicious server plants: `[malicious]`.",
    "models": "Models that clients train: `[model]`. Every model also takes `batchnorm`.",
    "data": "Data sets: `data.name`. Options: `data.options`.",
    "metrics": "How near a claim comes to the truth: columns of scores.csv, names in `[gate]`.",
    "autoencoders": "Networks that make codes: `representation.autoencoder`. Options: "
    "`representation.options`.",
}
INTRO = """\
A scenario is a TOML file. `fedpriv new mine.toml` writes one, `fedpriv check mine.toml` looks for
mistakes, `fedpriv run mine.toml` runs it. Every key has a default, so a file holds only what
differs. `--set section.key=value` overrides a key for one run, such as `--set training.lr=0.1`.
"""


def pages() -> dict[str, str]:
    """Every page of the manual, by its file name."""
    found = {"scenario.md": scenario(), "commands.md": commands(), "files.md": files()}
    found |= {f"{kind}.md": parts(kind) for kind in KINDS}
    return {"index.md": index(found)} | found


def index(found: Mapping[str, str]) -> str:
    """Titles and first sentences."""
    rows = []
    for name, text in found.items():
        title = re.search(r"^# (.*)$", text, re.M)
        assert title is not None
        said = next(p for p in text.split("\n\n")[1:] if not p.startswith(("#", "<!--", "|")))
        first = " ".join(said.split()).partition(". ")[0].rstrip(".")
        rows.append((f"[{title[1]}]({name})", f"{first}."))
    head = "What every key, option, command and file means. These pages are made from the code."
    return f"# Manual\n\n{NOTE}\n\n{head}\n\n{table(('page', 'what it is'), rows)}\n"


def scenario() -> str:
    """Every key of a scenario file."""
    from fedpriv.describing import arguments, options_of
    from fedpriv.scenario.reading import FILE_KEYS
    from fedpriv.scenario.scenario import SECTIONS, Scenario

    lines = ["# Scenario keys", "", NOTE, "", INTRO, "## At the top", ""]
    rows = [
        (f"`{one.name}`", one.type, code(one.shown_default), one.meaning, code(one.example))
        for one in options_of(Scenario)
        if one.name not in SECTIONS
    ]
    rows += [
        (f"`{key}`", kind, "–", what, code(example))
        for key, (kind, what, example) in FILE_KEYS.items()
    ]
    lines += [table(("key", "type", "default", "what it means", "example"), rows), ""]
    said = arguments(Scenario)
    for name, section in SECTIONS.items():
        title = f"[[{name}]]" if section.many else f"[{name}]"
        lines += [f"## {title}", "", said[name.replace("-", "_")][0], ""]
        if section.note:
            lines += [section.note, ""]
        if section.of is None:
            lines += ["```toml", section.example, "```", ""]
            continue
        rows = [
            (
                f"`{one.name}`",
                one.type,
                code(one.shown_default),
                one.unit or "–",
                one.meaning,
                code(one.example),
            )
            for one in options_of(section.of)
        ]
        head = ("key", "type", "default", "unit", "what it means", "example")
        lines += [table(head, rows), ""]
    return "\n".join(lines).rstrip() + "\n"


def parts(kind: str) -> str:
    """The card of every part of a kind."""
    from fedpriv.simulations.cards import card_of
    from fedpriv.simulations.registries import registries

    registry = registries()[kind]
    lines = [f"# {kind.capitalize()}", "", NOTE, "", KINDS[kind], ""]
    lines += [f"`fedpriv list {kind} NAME` prints one of these cards. Your own goes by "]
    lines[-1] += f"`pkg.module:Name`, or by an entry point of the group `{registry.group}`."
    names = [name for name in registry if registry.ours(name)]
    lines += ["", table(("name", "what it is"), [(link(n), registry[n].summary) for n in names])]
    for name in names:
        card = card_of(kind, name)
        paper = f" Source: {card.paper}." if card.paper else ""
        lines += ["", f"## {name}", "", f"{card.summary[:1].upper()}{card.summary[1:]}.{paper}", ""]
        if card.about:
            lines += [card.about.replace("\n", "\n\n"), ""]
        lines += [f"- {word}: {value}" for word, value in card.facts.items()]
        if card.options:
            rows = [
                (f"`{o.name}`", o.type, code(o.shown_default), o.unit or "–", o.meaning)
                for o in card.options
            ]
            lines += ["", table(("option", "type", "default", "unit", "what it means"), rows)]
    return "\n".join(lines) + "\n"


def link(name: str) -> str:
    """A link to the part's own heading."""
    return f"[`{name}`](#{re.sub(r'[^a-z0-9 _-]', '', name.lower())})"


def files() -> str:
    """Every file of a run's or a sweep's folder, and the columns of its tables."""
    from fedpriv import columns
    from fedpriv.catalogue import METRICS
    from fedpriv.runfolder import RunFolder
    from fedpriv.sweepfolder import SweepFolder

    root = Path("R")
    run = described(RunFolder, root)
    lines = ["# Files of a run", "", NOTE, ""]
    lines += ["`fedpriv run` writes one folder, below `runs` or where `--out` says.", ""]
    lines += [table(("file", "what it holds"), run.items()), "", "## Files of a sweep", ""]
    lines += ["A sweep's folder has the same files, and these. Its cells are run folders.", ""]
    own = {k: v for k, v in described(SweepFolder, root).items() if k not in run}
    lines += [table(("file", "what it holds"), own.items())]
    metrics = {
        name: f"{row.summary} ({METRICS.build(name).unit or 'no unit'})"
        for name, row in METRICS.items()
        if METRICS.ours(name)
    }
    beside = {
        f"…{columns.BLIND}": "the same metric for a guess made without evidence",
        f"…{columns.WORST}": "sweeps: the worst value over all victims",
    }
    for title, known in {
        "scores.csv": columns.HEAD | metrics | beside | columns.TAIL,
        "rounds.jsonl": columns.ROUNDS,
        "results.csv (sweeps; metrics as in scores.csv)": columns.RESULTS,
        "cap.csv (sweeps)": columns.CAP,
        "summary.csv (metrics as in scores.csv)": columns.SUMMARY,
        "pareto.csv": columns.PARETO,
        "partition.csv": columns.PARTITION,
    }.items():
        rows = [(f"`{name}`", what) for name, what in known.items()]
        lines += ["", f"## {title}", "", table(("column", "what it holds"), rows)]
    return "\n".join(lines) + "\n"


def described(folder: type, root: Path) -> dict[str, str]:
    """The files that a folder's class names, with what it says of them."""
    found = {}
    for name, member in inspect.getmembers(folder, lambda one: isinstance(one, property)):
        path = member.fget(folder(root))
        if isinstance(path, Path) and not name.startswith("_"):
            said = inspect.getdoc(member.fget) or ""
            place = path.relative_to(root).as_posix()
            found[f"`{place}{'' if path.suffix else '/'}`"] = " ".join(said.split())
    return dict(sorted(found.items()))


def commands() -> str:
    """Every command with its arguments and options, from the Typer application."""
    from fedpriv.errors import EXIT_CODES
    from fedpriv.simulations import cli

    lines = ["# Commands", "", NOTE, ""]
    lines += ["Every command answers `--help`. Its exit code says how it ended.", ""]
    lines += [table(("exit code", "means"), EXIT_CODES.items()), ""]
    lines.append("A crossed gate wins over everything that is missing: then the code is 1.")
    for name, one in sorted(below("fedpriv", cli.command())):
        lines += ["", f"## {name}", "", (one.help or "").strip(), ""]
        rows = [
            (option(parameter), code(default(parameter)), " ".join((parameter.help or "").split()))
            for parameter in one.params
            if parameter.name not in GIVE_UP
        ]
        if rows:
            lines.append(table(("argument", "default", "what it is"), rows))
    return "\n".join(lines) + "\n"


def below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """The commands under a command, by the words people type."""
    inner: Mapping[str, Any] = getattr(command, "commands", {})
    if not inner:
        yield name, command
    for word, one in inner.items():
        yield from below(f"{name} {word}", one)


def option(parameter: Any) -> str:
    written = ", ".join([*parameter.opts, *parameter.secondary_opts])
    shown = written if parameter.param_type_name == "option" else parameter.name.upper()
    return f"`{shown}`" + (" (required)" if parameter.required else "")


def default(parameter: Any) -> str:
    """The default of a parameter as people would type it."""
    value = parameter.default
    if parameter.required or value is None or value == [] or callable(value) or value is False:
        return "–"
    return "–" if "UNSET" in repr(value) else str(getattr(value, "value", value))


def code(text: str) -> str:
    return text if text in ("", "–", "needed") else f"`{text}`"


def table(head: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *map(list, rows)]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in pages().items():
        (FOLDER / file).write_text(text, "utf-8")
        print(f"docs/manual/{file}")
    from fedpriv.simulations.reproduce.catalogue import PAPERS
    from fedpriv.simulations.reproduce.page import page

    (FOLDER.parent / "papers.md").write_text(page(PAPERS, FOLDER.parent / "measured"), "utf-8")
    print("docs/papers.md")
