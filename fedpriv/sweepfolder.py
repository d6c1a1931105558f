"""SweepFolder: every file of a sweep beside those of a run; its cells are run folders below it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedpriv.errors import BadFolder
from fedpriv.files import write_text
from fedpriv.runfolder import RunFolder, read_json
from fedpriv.scenario import Scenario
from fedpriv.tables import Row, read_table, write_table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class SweepFolder(RunFolder):
    """The folder of one sweep."""

    def exists(self) -> bool:
        return self.results_file.exists()

    @property
    def stop_file(self) -> Path:
        """Is there when the cells under way are to stop."""
        return self.path / "stop"

    def begin(self, scenario: Scenario, resume: bool) -> None:
        """Write down what is swept; BadFolder when the folder holds another sweep."""
        self.stop_file.unlink(missing_ok=True)
        if not self.scenario_file.exists():
            self.write_settings(scenario)
            return
        if not resume:
            raise BadFolder(
                f"'{self.path}' holds a sweep already; give --resume to go on, or another --out."
            )
        if self.scenario_file.read_text("utf-8") != scenario.toml():
            raise BadFolder(f"'{self.path}' was started with other settings; give another --out.")

    @property
    def trainings(self) -> Path:
        """The federations that were trained, a run folder each."""
        return self.path / "training"

    @property
    def exposed(self) -> Path:
        """The rounds whose updates were attacked, a run folder each."""
        return self.path / "victims"

    @property
    def cells(self) -> Path:
        """The result of every cell as JSON, which `--resume` reads."""
        return self.path / "cells"

    def training(self, name: str) -> RunFolder:
        """The federation that was trained for a setting."""
        return self.below(self.trainings.name, name)

    def victims(self, name: str) -> RunFolder:
        """The round of a setting and batch size in which updates were exposed."""
        return self.below(self.exposed.name, name)

    def cell_file(self, name: str) -> Path:
        return self.cells / f"{name}.json"

    def write_cell(self, name: str, result: Mapping[str, Any]) -> None:
        write_text(self.cell_file(name), json.dumps(dict(result)))

    def cell(self, name: str) -> dict[str, Any]:
        """A cell's result, with `error` where it failed; empty when it has none yet."""
        try:
            found: dict[str, Any] = read_json(self.cell_file(name), {})
        except BadFolder:  # cut short while it was written
            return {}
        return found

    @property
    def results_file(self) -> Path:
        """A row for every cell: defence × value × attack × batch size × seed."""
        return self.path / "results.csv"

    def write_results(self, rows: Sequence[Row]) -> None:
        write_table(self.results_file, rows)

    def results(self) -> "pd.DataFrame":
        """A row for every cell: defence × value × attack × batch size × seed."""
        return read_table(self.results_file)

    @property
    def cap_file(self) -> Path:
        """CAP of every defence against every attack."""
        return self.path / "cap.csv"

    @property
    def cap_text_file(self) -> Path:
        """The CAP tables as Markdown."""
        return self.path / "cap.md"

    @property
    def cap_latex_file(self) -> Path:
        """The CAP tables as LaTeX."""
        return self.path / "cap.tex"

    def write_cap(self, rows: Sequence[Row], text: str, latex: str) -> None:
        """The CAP table, and the same as Markdown and as LaTeX."""
        write_table(self.cap_file, rows)
        write_text(self.cap_text_file, text)
        write_text(self.cap_latex_file, latex)

    def cap(self) -> "pd.DataFrame":
        return read_table(self.cap_file)

    @property
    def ppc_picture(self) -> Path:
        """PPC curves: the attacks' error against how much the defence changed."""
        return self.path / "ppc.png"
