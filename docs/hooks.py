"""Pages made while the site is built: commands, names, scenarios and the Python API, from the code itself."""

import csv
import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

MEASURED = re.compile(r"<!-- measured: ([a-z0-9-]+) -->")


def on_files(files: Files, config: Any) -> Files:
    """Add the reference to the pages that are written by hand."""
    for name, text in {
        "cli": commands(),
        "names": names(),
        "scenarios": scenarios(),
        "api": api(),
    }.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, config: Any, **_: Any) -> str:
    """`<!-- measured: name -->` becomes the table docs/measured/name.csv."""

    def found(match: re.Match[str]) -> str:
        path = Path(config.docs_dir) / "measured" / f"{match[1]}.csv"
        if not path.exists():
            return "*Not measured yet.*"
        with path.open(newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        return table(head, rows)

    return MEASURED.sub(found, markdown)


def commands() -> str:
    """Every command with its arguments and options, from the Typer application."""
    import typer

    from fedpriv.simulations import cli

    cli._register()
    parts = [
        "# Commands",
        "",
        "Exit codes: 0 done, 1 a gate was crossed, 2 bad input, 3 the work failed.",
    ]
    command = typer.main.get_command(cli.app)
    for name, one in sorted(below("fedpriv", command)):
        parts += ["", f"## {name}", "", (one.help or "").strip(), ""]
        rows = [
            (option(parameter), " ".join((getattr(parameter, "help", "") or "").split()))
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


def option(parameter: Any) -> str:
    written = ", ".join([*parameter.opts, *parameter.secondary_opts])
    shown = written if parameter.param_type_name == "option" else parameter.name.upper()
    return f"`{shown}`" + (" (required)" if parameter.required else "")


def names() -> str:
    """Every name that a scenario may hold, with its options."""
    from fedpriv.attacks.catalogue import ATTACKS
    from fedpriv.attacks.code_catalogue import CODE_ATTACKS
    from fedpriv.catalogue import DATASETS, METRICS, MODELS
    from fedpriv.clients.catalogue import PLUGINS
    from fedpriv.scenario.binding import parameters
    from fedpriv.strategies.catalogue import STRATEGIES

    given = ("channels", "size", "classes", "root")
    parts = ["# Names", "", "What scenarios, the command line and reports call things."]
    kinds = {
        "Plugins": PLUGINS,
        "Attacks on updates": ATTACKS,
        "Attacks on codes": CODE_ATTACKS,
        "Strategies": STRATEGIES,
        "Models": MODELS,
        "Data": DATASETS,
        "Metrics": METRICS,
    }
    for title, registry in kinds.items():
        rows = []
        for name, entry in registry.items():
            takes = parameters(entry.build, given)
            shown = ", ".join(f"`{key}`" for key in takes)
            rows.append((f"`{name}`", entry.summary, entry.paper, shown))
        parts += ["", f"## {title}", "", table(("name", "what it is", "source", "options"), rows)]
    return "\n".join(parts) + "\n"


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
    """The functions and classes meant for use from Python."""
    import fedpriv
    from fedpriv.clients.plugin import PrivacyPlugin
    from fedpriv.evidence.claims import Reconstruction
    from fedpriv.evidence.observation import Observation
    from fedpriv.registry import Registry
    from fedpriv.strategies import Curious, record_to

    shown = {
        "fedpriv.run": fedpriv.run,
        "fedpriv.load": fedpriv.load,
        "fedpriv.RunResult": fedpriv.RunResult,
        "strategies.Curious": Curious,
        "strategies.record_to": record_to,
        "fedpriv.clients.plugin.PrivacyPlugin": PrivacyPlugin,
        "fedpriv.evidence.observation.Observation": Observation,
        "fedpriv.evidence.claims.Reconstruction": Reconstruction,
        "fedpriv.registry.Registry": Registry,
    }
    parts = ["# Python", "", "What is meant to be used from outside; everything else may change."]
    for path, thing in shown.items():
        parts += ["", f"## {path}", "", *described(path.rpartition(".")[2], thing)]
        if inspect.isclass(thing):
            for name, member in vars(thing).items():
                function = member.fget if isinstance(member, property) else member
                function = getattr(function, "__func__", function)
                if not name.startswith("_") and inspect.isfunction(function):
                    parts += ["", f"### {path.rpartition('.')[2]}.{name}", ""]
                    parts += described(name, function)
    return "\n".join(parts) + "\n"


def described(name: str, thing: Any) -> list[str]:
    """Signature and docstring."""
    signature = str(inspect.signature(thing)).replace(" -> None", "")
    text = inspect.cleandoc(inspect.getdoc(thing) or "")
    return ["```python", f"{name}{signature}", "```", "", text]


def table(head: Any, rows: Any) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    cells = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)
