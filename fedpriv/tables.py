"""Tables as CSV files: one spelling of every column, also of those that once had other names."""

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedpriv.columns import HEAD
from fedpriv.errors import BadFolder
from fedpriv.files import write_text

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]
RENAMED = {
    "rmse": "relative-error",
    "sample": "victim",
    "batch-size": "batch",
    "psnr-best": "psnr-worst",
}
KNOWS = "the defence"  # what an old table says of an attacker that it calls informed
ANALYSIS = "analysis"  # in the column `by`: it is told a part of the secret


def decides(by: object) -> bool:
    """Whether a verdict may rest on scores of this attacker; an analysis is no attacker."""
    return by != ANALYSIS


def decisive(scores: "pd.DataFrame") -> "pd.DataFrame":
    """The rows of scores that a verdict may rest on."""
    return scores[scores["by"] != ANALYSIS] if "by" in scores else scores


def table_text(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as CSV with every column that one of them has, those of HEAD first."""
    rows = list(rows)
    found = dict.fromkeys(key for row in rows for key in row)
    columns = [name for name in HEAD if name in found]
    columns += [name for name in found if name not in HEAD]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _short(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def write_table(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    write_text(path, table_text(rows))


def read_table(path: Path) -> "pd.DataFrame":
    """A CSV file with today's column names; empty when the file is not there."""
    import pandas as pd

    if not path.exists():
        return pd.DataFrame()
    try:
        frame = pd.read_csv(path, low_memory=False)  # a column has one type, however long it is
    except pd.errors.EmptyDataError:
        return pd.DataFrame()
    except (OSError, UnicodeDecodeError, pd.errors.ParserError) as error:
        raise BadFolder(f"'{path}' cannot be read as CSV: {error}.") from error
    frame = frame.rename(columns=lambda name: RENAMED.get(str(name).strip(), str(name).strip()))
    if "informed" in frame and "knows" not in frame:
        frame["knows"] = [KNOWS if bool(value) else "" for value in frame.pop("informed")]
    for name in ("knows", "by", "claim"):
        if name in frame:
            frame[name] = frame[name].astype(object).fillna("").astype(str)
    return frame


def rows_in(frame: "pd.DataFrame") -> list[Row]:
    """The rows of a table, each with the columns that it has a value for."""
    return [
        {str(key): value for key, value in row.items() if value == value}  # not nan
        for row in frame.to_dict("records")
    ]


def _short(value: Any) -> Any:
    return f"{value:.9g}" if isinstance(value, float) else value
