"""Pages made from the code while the site is built: commands, names, files, equations and more."""

import ast
import csv
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
ROOMS = {
    "fedpriv": "the core: what was asked for, evidence, claims, codes, metrics, the page",
    "clients": "a message in, the plugins' hooks in order, a message out",
    "strategies": "the server: who is asked, what becomes of the replies",
    "attacks": "everything that turns evidence into claims",
    "simulations": "running, judging, sweeps, audits, deployment, the command line",
}
PAPERS = {
    "SPN": "Fan et al. 2020, secret polarization, PPC and CAP",
    "ATS": "Gao et al. 2021, searched augmentation",
    "ARS": "Chen et al. 2022, adversarial representation sharing",
    "RAN": "Liu et al. 2018, reconstructive adversarial network",
    "ARL": "Xiao et al. 2020, adversarial reconstruction learning",
}
NUMBER = r"[0-9]+(?:\.[0-9]+)*[a-z]?"
KIND = r"(?:eq\.|alg\.|sect\.|fig\.|tables?|theorem)"
PLACE = rf"{KIND}\s+{NUMBER}(?:(?:\s?[-–,]\s?| and ){NUMBER})*"
REFERENCE = re.compile(rf"\b({'|'.join(PAPERS)})\s+({PLACE}(?:[,;]\s+{PLACE})*)")
# Arguments of builders that the program gives, and nobody types.
GIVEN = (
    *("channels", "size", "classes", "shape", "root", "scenario", "roster", "seed", "fraction"),
    *("evaluate_clients", "masks", "network"),
)
EXITS = (
    (0, "done; an audit: holds"),
    (1, "a gate was crossed; an audit: leaks"),
    (2, "bad input: a name, a setting, a file"),
    (3, "the work itself failed"),
    (4, "undecided: a gate was asked for, but work was cut short, failed or was never measured"),
    (130, "interrupted with Ctrl-C, without a gate; what was there is kept"),
)
MEASURED = re.compile(r"<!-- measured: ([a-z0-9-]+) -->")
TERMS = "<!-- terms -->"


def on_files(files: Files, config: Any) -> Files:
    """Add the reference to the pages that are written by hand."""
    for name, text in {
        "cli": commands(),
        "names": names(),
        "scenarios": scenarios(),
        "api": api(),
        "files": files_by_room(),
        "equations": equations(),
    }.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, config: Any, **_: Any) -> str:
    """`<!-- measured: name -->` becomes the table docs/measured/name.csv, `<!-- terms -->` the keys
    of terms.toml.
    """
    if TERMS in markdown:
        markdown = markdown.replace(TERMS, keys_of_terms())

    def found(match: re.Match[str]) -> str:
        path = Path(config.docs_dir) / "measured" / f"{match[1]}.csv"
        if not path.exists():
            return "*Not measured yet.*"
        with path.open(newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        return table(head, rows)

    return MEASURED.sub(found, markdown)


def keys_of_terms() -> str:
    """Every key of terms.toml, its default and what it is."""
    from fedpriv.clients.protection.template import written
    from fedpriv.clients.protection.terms import keys

    rows = [
        (f"`{one.name.replace('_', '-')}`", f"`{written(one.default)}`", one.metadata["why"])
        for one in keys()
    ]
    return table(("key", "default", "what it is"), rows)


def commands() -> str:
    """Every command with its arguments and options, from the Typer application."""
    import typer

    from fedpriv.simulations import cli

    cli._register()
    parts = ["# Commands", "", table(("exit code", "means"), EXITS), ""]
    parts.append("A crossed gate wins over everything that is missing: then the code is 1.")
    command = typer.main.get_command(cli.app)
    for name, one in sorted(below("fedpriv", command)):
        parts += ["", f"## {name}", "", (one.help or "").strip(), ""]
        rows = [
            (option(parameter), " ".join(help_of(parameter, one).split()))
            for parameter in one.params
            if parameter.name not in ("help", "install_completion", "show_completion")
        ]
        if rows:
            parts.append(table(("argument", "what it is"), rows))
    return "\n".join(parts) + "\n"


def below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """The commands under a command, by the words people type."""
    inner: Mapping[str, Any] = getattr(command, "commands", {})
    if not inner:
        yield name, command
    for word, one in inner.items():
        yield from below(f"{name} {word}", one)


def help_of(parameter: Any, command: Any) -> str:
    """What a command says of a parameter; click 8.5 drops what Typer says of arguments."""
    annotations = inspect.get_annotations(inspect.unwrap(command.callback))
    notes = getattr(annotations.get(parameter.name), "__metadata__", ())
    said = [note.help for note in notes if getattr(note, "help", None)]
    return getattr(parameter, "help", None) or (said[0] if said else "")


def option(parameter: Any) -> str:
    written = ", ".join([*parameter.opts, *parameter.secondary_opts])
    shown = written if parameter.param_type_name == "option" else parameter.name.upper()
    return f"`{shown}`" + (" (required)" if parameter.required else "")


def names() -> str:
    """Every name that a scenario may hold, with its options and what its row says besides."""
    from fedpriv.scenario.binding import parameters
    from fedpriv.simulations.registries import registries

    parts = ["# Names", "", "What scenarios, the command line and reports call things."]
    parts.append("`fedpriv list KIND` prints the same, `fedpriv list KIND NAME` one row of it.")
    for kind, registry in registries().items():
        besides = [f.name for f in fields(registry.row)[3:]]
        rows = []
        for name, entry in registry.items():
            takes = ", ".join(f"`{key}`" for key in parameters(entry.build, GIVEN))
            said = {field: getattr(entry, field) for field in besides}
            said |= about_metric(registry.build(name)) if kind == "metrics" else {}
            cells = {"name": f"`{name}`", "what it is": entry.summary, "source": entry.paper}
            rows.append(cells | {key: shown(value) for key, value in said.items()})
            rows[-1]["options"] = takes
        parts += ["", f"## {kind}", "", f"Entry points of the group `{registry.group}` add to it."]
        parts += ["", table(list(rows[0]), [list(row.values()) for row in rows])]
    return "\n".join(parts) + "\n"


def about_metric(metric: Any) -> dict[str, Any]:
    """What a metric says about itself."""
    return {name: getattr(metric, name) for name in ("of", "leaks", "unit", "said", "bound")}


def shown(value: Any) -> str:
    """What a row says, in a cell."""
    from fedpriv.scenario.sections import Spec, spelled

    if isinstance(value, Mapping):
        return ", ".join(f"{key} = {item}" for key, item in value.items())
    if isinstance(value, tuple | list):
        return ", ".join(map(shown, value))
    if isinstance(value, bool):
        return "yes" if value else ""
    return spelled(value) if isinstance(value, Spec) else str("" if value is None else value)


def scenarios() -> str:
    """The scenarios that ship with fedpriv, whole."""
    from fedpriv.scenario import builtin, tables_of

    parts = ["# Scenarios", ""]
    for name, path in builtin().items():
        tables = tables_of(name)
        paper = f" ({tables['paper']})" if tables.get("paper") else ""
        parts += [f"## {name}", "", f"{tables.get('summary', '')}{paper}", ""]
        parts += ["```toml", path.read_text("utf-8").strip(), "```", ""]
    return "\n".join(parts) + "\n"


def api() -> str:
    """The functions and classes meant for use from Python: those of `fedpriv.__all__`."""
    import fedpriv

    parts = ["# Python", "", "What is meant to be used from outside; everything else may change."]
    parts += ["", "```python", "from fedpriv import run, audit, attack, Curious, record_to", "```"]
    for name in fedpriv.__all__:
        thing = getattr(fedpriv, name)
        parts += ["", f"## fedpriv.{name}", "", *described(name, thing)]
        if inspect.isclass(thing):
            for inner, member in vars(thing).items():
                function = member.fget if isinstance(member, property) else member
                function = getattr(function, "__func__", function)
                if not inner.startswith("_") and inspect.isfunction(function):
                    parts += ["", f"### {name}.{inner}", "", *described(inner, function)]
    return "\n".join(parts) + "\n"


def described(name: str, thing: Any) -> list[str]:
    """Signature and docstring."""
    try:
        signature = str(inspect.signature(thing)).replace(" -> None", "")
    except ValueError:  # an exception class without a constructor of its own
        signature = "(message)"
    text = inspect.cleandoc(thing.__doc__ or "")
    return ["```python", f"{name}{signature}", "```", "", *as_markdown(text)]


def as_markdown(text: str) -> list[str]:
    """A docstring: its arguments as a list, its example as code."""
    lines, section = [], ""
    for line in text.splitlines():
        if line in ("Args:", "Returns:", "Example:"):
            section = line
            lines += [f"**{line[:-1]}**", ""]
            if section == "Example:":
                lines.append("```pycon")
        elif section == "Args:" and re.match(r"    [a-z]\S*(, [a-z_]+)*: ", line):
            named, _, what = line.strip().partition(": ")
            lines.append(f"- `{named}`: {what}")
        elif section == "Example:":
            lines.append(line.removeprefix("    "))
        else:
            lines.append(line.strip() if section == "Returns:" else line)
    return lines + (["```"] if section == "Example:" else [])


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every Python file of the product, by its path from the root."""
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text("utf-8"))


def files_by_room() -> str:
    """The first paragraph of every module's docstring, by folder."""
    parts = ["# Which file owns what", ""]
    parts.append(
        "Each folder is a room with one question, each file has one idea. This is the beginning"
    )
    parts.append("of every file. Folders are imported as `fedpriv.clients`, `fedpriv.attacks` …")
    folder = ""
    rows: dict[str, list[tuple[str, str]]] = {}
    for path, tree in modules():
        first = " ".join((ast.get_docstring(tree) or "").partition("\n\n")[0].split())
        folder, _, name = path.rpartition("/")
        if first:
            rows.setdefault(folder, []).append((f"`{name}`", first))
    for folder, files in rows.items():
        about = f"\n{ROOMS[folder].capitalize()}.\n" if folder in ROOMS else ""
        parts += ["", f"## {folder}/", about, table(("file", "what it owns"), files)]
    return "\n".join(parts) + "\n"


def equations() -> str:
    """Where docstrings name a place in a paper, by paper."""
    found: dict[str, dict[str, set[str]]] = {paper: {} for paper in PAPERS}
    for path, tree in modules():
        for where, text in texts(tree):
            for paper, several in REFERENCE.findall(text):
                shown = f"`{path}`" + (f" `{where}`" if where else "")
                for place in re.findall(PLACE, several):
                    found[paper].setdefault(" ".join(place.split()), set()).add(shown)
    parts = ["# Where a paper's equations are", ""]
    parts.append(
        "Docstrings name the place in the paper that they follow. This page collects them."
    )
    for paper, places in found.items():
        rows = [(place, ", ".join(sorted(places[place]))) for place in sorted(places, key=ordered)]
        parts += ["", f"## {paper}", "", f"{PAPERS[paper]}.", "", table(("place", "code"), rows)]
    return "\n".join(parts) + "\n"


def ordered(place: str) -> tuple[str, list[int]]:
    """Equations by number, then figures, and so on."""
    return place.partition(" ")[0], [int(number) for number in re.findall(r"\d+", place)]


def texts(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Docstrings by the name of their class or function."""
    yield "", ast.get_docstring(tree) or ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, ast.get_docstring(node) or ""


def table(head: Any, rows: Any) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)
