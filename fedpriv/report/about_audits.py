"""The section of a page about an audit: what was asked, tested and not tested, and defences."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedpriv.catalogue import METRICS
from fedpriv.report.blocks import Cell, Section, Table
from fedpriv.report.kinds import word_of
from fedpriv.report.reading import Run

MARKS = {"leaks": "bad", "holds": "good", "undecided": "", "tested": "good", "not tested": "near"}

NAMED = {
    "--clients": "",
    "the app": ", as its pyproject.toml says",
    "nobody": " (it names no number)",
}


def audit_section(run: Run) -> Section:
    """Empty for a run that is no audit, or one of a version before 0.3."""
    found = run.audit
    if "outcome" not in found:
        return Section("audit", "Audit")
    rounds, minutes, work = found["rounds"], found["minutes"], found["work"]
    given = "" if minutes["given"] is None else f" of {minutes['given']:g}"
    units = (
        f" and {work['units']} units of work on {work['workers']} cores; "
        f"`--work {work['units']}` repeats it"
        if work["units"]
        else ""
    )
    words = (
        f"{rounds['trained']} of {rounds['wanted']} rounds were trained. The audit took "
        f"{minutes['used']:g}{given} minutes{units}. A victim is one sample of one client, and its "
        "worst score over all attacks counts once. Intervals are exact (95 %)."
    )
    if run.app:
        words = (
            f"The Flower app {run.app['name']} {run.app['version']} ran as it is, SHA-256 "
            f"{run.app['sha256'][:16]}…, commit {run.app['commit'] or 'unknown'}, with "
            f"{run.app['clients']} simulated clients{NAMED[run.app['clients-named-by']]}. {words}"
        )
    tables = [
        questions("The federation as configured", found["questions"], found["doubts"]),
        questions(
            "Kinds of claim that no gate asks about", found.get("besides", []), found["doubts"]
        ),
        of_servers(
            "What a server could make clients do: one step on a few samples", found["possible"]
        ),
        of_servers("What servers read that change the model", found.get("malicious", {})),
        defences(found),
        coverage(found["coverage"]),
        missing(found["missing"]),
    ]
    return Section("audit", "Audit", words, tables=[table for table in tables if table.rows])


def marked(word: str) -> Cell:
    return Cell(word, MARKS.get(word, ""))


def of_servers(caption: str, found: Mapping[str, Any]) -> Table:
    """The same about servers; where they are undecided as a whole, nothing about them holds."""
    doubts = ["they are undecided as a whole"] if found.get("outcome") == "undecided" else []
    return questions(caption, found.get("questions", []), doubts)


def questions(caption: str, found: Sequence[dict[str, Any]], doubts: Sequence[str] = ()) -> Table:
    """A row for each kind of claim; what is doubted does not hold."""
    rows = []
    for one in found:
        metric = METRICS.build(one["metric"])
        bound = f"{one['limit']:.0%} of samples" if one["bound"] is None else one["bound"]
        rows.append(
            (
                one["claim"],
                marked(word_of(one, doubts)),
                f"{one['hits']} of {one['victims']} ({one['clients']} clients)",
                f"{one['low']:.0%}–{one['high']:.0%}",
                metric.said or one["metric"],
                metric.shown(one["worst"]),
                metric.shown(one["blind"]),
                metric.shown(bound) if isinstance(bound, float) else bound,
                one["attack"],
                one["why"],
            )
        )
    columns = ("claim", "outcome", "victims hit", "interval", "metric", "worst", "blind guess")
    return Table(caption, (*columns, "bound", "attack", "remark"), rows)


def defences(found: dict[str, Any]) -> Table:
    """What was tried where the federation leaked worst, mild to strong."""
    rows = []
    for one in found["defences"]:
        best = " (cheapest)" if one["name"] == found["cheapest"] else ""
        price = one["price"]
        accuracy = ", ".join(f"{value:.1%}" for value in price["accuracy"]) or "–"
        cost = [
            f"{price[key]:.2f} × {word}"
            for key, word in (("seconds", "time"), ("bytes", "bytes"))
            if price[key] is not None
        ]
        counted = max((each["victims"] for each in one["outcomes"]), default=0)
        rows.append(
            (
                one["name"] + best,
                one["settings"],
                marked(one["word"]),
                counted,
                accuracy,
                ", ".join(cost) or "–",
                one["why"],
            )
        )
    rows += [(name, "", marked("not tested"), 0, "–", "–", "no time") for name in found["untried"]]
    columns = ("defence", "settings", "outcome", "victims", "accuracy by seed", "cost", "remark")
    caption = f"Defences, tried in {found['defended-cell'] or 'no cell'}, mild to strong"
    return Table(caption, columns, rows, frozenset({3}))


def coverage(lines: Sequence[dict[str, Any]]) -> Table:
    """Threat models and kinds of claim, tested or not."""
    rows = [
        (
            line["threat"],
            line["claim"],
            line["nist"],
            marked(line["state"]),
            ", ".join(line["attacks"]) if line["state"] == "tested" else line["why"],
            line["command"],
        )
        for line in lines
    ]
    columns = ("threat model", "claim", "NIST AI 100-2", "state", "by, or why not", "to test it")
    return Table("What was tested, and what was not", columns, rows)


def missing(found: Sequence[dict[str, Any]]) -> Table:
    """Attacks that failed, were cut short or found no time."""
    rows = [(one["cell"], one["attack"], one["why"]) for one in found]
    return Table("Left out, cut short or failed", ("cell", "attack", "why"), rows)
