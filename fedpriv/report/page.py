"""One self-contained HTML page from run folders and sweeps; it needs no script."""

import shlex
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pandas as pd
from jinja2 import Environment, FunctionLoader, StrictUndefined, Template

from fedpriv.files import write_bytes
from fedpriv.manifest import write_manifest
from fedpriv.metrics.gates import Gate
from fedpriv.report.about_runs import all_scores, run_sections
from fedpriv.report.about_summaries import summary_section
from fedpriv.report.about_sweeps import measure_of, sweep_sections
from fedpriv.report.blocks import Section
from fedpriv.report.drawing import svg
from fedpriv.report.first import First, first_of_runs, first_of_sweep
from fedpriv.report.leakage import Measure, deciding
from fedpriv.report.reading import Material, read_material
from fedpriv.report.sweep_verdict import verdict_of_sweep
from fedpriv.report.verdict import Verdict, verdict_of_runs, worst_measure
from fedpriv.runfolder import RunFolder

PICTURE = "data:image/png;base64,"


def write_report(paths: Sequence[Path], out: Path | None = None, command: str = "") -> Path:
    """Write the page of the folders; beside the first one's files unless `out` says otherwise.

    The page of one folder comes with its manifest.

    A page with pictures shows private samples: only its owner may read it.
    """
    place = out or paths[0] / "report.html"
    page = page_of(read_material(paths), command or _command(paths, out))
    private = PICTURE in page
    write_bytes(place, page.encode("utf-8"), mode=0o600 if private else None)
    if out is None and len(paths) == 1:
        write_manifest(RunFolder(paths[0]))
    return place


def page_of(material: Material, command: str = "") -> str:
    """The page as text."""
    scores, gates, whats = _decided_by(material)
    sections: list[Section] = []
    verdict: Verdict | None = None
    first: First | None = None
    for grid in material.grids:
        sections += sweep_sections(grid, len(material.grids) > 1)
        verdict = verdict or verdict_of_sweep(grid)
        first = first or first_of_sweep(grid, measure_of(grid))
    if material.runs:
        what = worst_measure(scores, whats)
        sections += run_sections(material.runs, scores, what, gates)
        verdict = verdict or verdict_of_runs(material.runs, scores, whats)
        first = first or first_of_runs(material.runs, what, verdict.light)
    if material.summaries or material.pictures:
        sections.insert(0, summary_section(material))
    return _template().render(
        title=_title(material),
        verdict=verdict,
        first=first,
        sections=sections,
        command=command,
        version=version("fedpriv"),
        css=_text("page.css"),
        js=_text("page.js"),
        drawn=svg,
    )


def plain_page(title: str, sections: Sequence[Section], command: str) -> str:
    """A page without a verdict."""
    return _template().render(
        title=title,
        verdict=None,
        first=None,
        sections=sections,
        command=command,
        version=version("fedpriv"),
        css=_text("page.css"),
        js=_text("page.js"),
        drawn=svg,
    )


def verdict_in(path: Path) -> Verdict:
    """The verdict of the runs in a folder, as at the top of its page."""
    material = read_material([path])
    scores, _, whats = _decided_by(material)
    return verdict_of_runs(material.runs, scores, whats)


def _decided_by(material: Material) -> tuple[pd.DataFrame, list[Gate], Sequence[Measure]]:
    """The scores of all runs, the gates of the first that has some, and what decides."""
    scores = all_scores(material.runs)
    gates = next((run.gates for run in material.runs if run.gates), [])
    return scores, gates, deciding(scores, gates)


def _title(material: Material) -> str:
    if not material.grids and len(material.runs) == 1 and "outcome" in material.runs[0].audit:
        return f"Audit of {material.runs[0].scenario.name}"
    names = [titled(grid.name, grid.title) for grid in material.grids]
    names += [titled(run.name, run.scenario.name) for run in material.runs]
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"Privacy report: {listed}"


def titled(folder: str, scenario: str) -> str:
    """A scenario's name with its folder's, where that says anything more."""
    if not scenario or folder == scenario or folder.startswith(f"{scenario}-"):
        return folder
    return scenario if scenario.endswith(f"-{folder}") else f"{scenario} ({folder})"


def _command(paths: Sequence[Path], out: Path | None) -> str:
    parts = ["fedpriv", "report", *map(str, paths), *(["--out", str(out)] if out else [])]
    return shlex.join(parts)


def _template() -> Template:
    environment = Environment(
        loader=FunctionLoader(_text), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("page.html")


def _text(name: str) -> str:
    return (files("fedpriv.report") / name).read_text("utf-8")
