"""The sheet of an audit: two pages with its scope, its findings and its limits, to be signed."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema

from fedpriv.catalogue import METRICS
from fedpriv.errors import BadFolder
from fedpriv.files import write_bytes
from fedpriv.manifest import write_manifest
from fedpriv.metrics.rates import LEVEL
from fedpriv.report.about_epsilon import card_rows
from fedpriv.report.kinds import word_of
from fedpriv.report.lights import OUTCOMES, WORDS, Light
from fedpriv.report.paper import BOTTOM, INK, LEFT, LINE, RIGHT, SOFT, Paper
from fedpriv.report.reading import Run, read_material
from fedpriv.report.verdict import capital

PAGES = 2
SCALES = (
    1.15,
    1.1,
    1.05,
    1.0,
    0.95,
    0.9,
    0.85,
    0.8,
    0.75,
)  # of the type, until all fits on two pages
TONES: dict[Light, tuple[str, str]] = {
    "red": ("#b3261e", "#fdeceb"),
    "green": ("#1c6b3c", "#e6f4eb"),
    "grey": ("#4b5560", "#eef1f4"),
}
LONGEST = 420  # letters of a sentence; verdict.json has all of it
SIGNED = 92.0  # points for the lines to sign


def write_sheet(folder: Path, out: Path | None = None) -> Path:
    """Write the sheet of an audit; `report.pdf` in its folder unless `out` says otherwise."""
    runs = read_material([folder]).runs
    if len(runs) != 1 or "outcome" not in runs[0].audit:
        raise BadFolder(
            f"'{folder}' holds no audit, and only a verdict can be signed; "
            "`fedpriv audit SCENARIO --pdf` makes one."
        )
    run = runs[0]
    check_verdict(run.audit, folder)
    write_manifest(run.folder)
    place = out or run.folder.sheet_file
    foot = f"fedpriv {version('fedpriv')} · {short(run.scenario.name, 60)} · {date_of(run)}"
    write_bytes(place, laid_out(run).pdf(f"Privacy audit: {run.scenario.name}", foot))
    return place


def check_verdict(found: Mapping[str, Any], folder: Path) -> None:
    """BadFolder unless a verdict is as its schema says."""
    schema = json.loads((files("fedpriv.report") / "verdict.schema.json").read_text("utf-8"))
    try:
        jsonschema.validate(found, schema)
    except jsonschema.ValidationError as error:
        raise BadFolder(
            f"The verdict of '{folder}' is not as verdict.schema.json says: {error.message:.200}. "
            "Audit again with this version."
        ) from None


def laid_out(run: Run) -> Paper:
    """The sheet in the largest type that fits; the longest tables are cut where none does."""
    for most, letters in ((40, LONGEST), (12, 160), (6, 70), (4, 30)):
        for scale in SCALES if letters == LONGEST else SCALES[-1:]:
            paper = Paper(scale)
            first_page(paper, run, letters)
            before = paper.page
            paper.new_page()
            second_page(paper, run, most, letters)
            if before == 0 and paper.pages <= PAGES:
                return paper
    return paper


def first_page(paper: Paper, run: Run, letters: int) -> None:
    """Verdict, scope, victims and bounds, and what it was made of."""
    found = run.audit
    light = OUTCOMES[found["outcome"]]
    paper.put("Privacy audit", LEFT, 9 * paper.scale, SOFT)
    paper.paragraph(short(run.scenario.name, 120), 17, bold=True)
    paper.skip(8)
    sentence = str(found["sentence"]).removeprefix(f"{WORDS[light]}: ")
    tone, back = TONES[light]
    paper.banner(
        [(WORDS[light], 15, True), (short(capital(sentence)), 9.2, False)],
        tone,
        back,
    )
    paper.heading("Scope")
    paper.table([("", 20), ("", 80)], shortened(scope(run), letters))
    paper.heading("Victims and bounds")
    asked = [*found["questions"], *found.get("besides", [])]
    columns = [("claim", 10), ("outcome", 14), ("victims hit", 17), ("95 % interval", 13)]
    columns += [("worst", 11), ("blind guess", 12), ("bound", 13), ("attack", 19)]
    rows = [question(one, word_of(one, found["doubts"])) for one in asked]
    paper.table(columns, shortened(rows, letters))
    paper.skip(3)
    paper.paragraph(
        "A victim is one sample of one client; its worst score over all attacks counts once. "
        "Intervals are exact (binomial). A blind guess has seen no evidence.",
        7.4,
        SOFT,
    )
    for text in server_sentences(found):
        paper.skip(4)
        paper.paragraph(short(text, letters))
    paper.heading("Made from")
    paper.table([("", 20), ("", 80)], list(sources(run)))


def second_page(paper: Paper, run: Run, most: int, letters: int) -> None:
    """Threat models, the DP card, what is left open, and lines to sign."""
    found = run.audit
    lines = {
        state: [line for line in found["coverage"] if line["state"] == state]
        for state in ("tested", "not tested", "does not apply")
    }
    paper.heading("Threat models that were tested")
    columns = [("threat model", 42), ("claim", 11), ("kind (NIST AI 100-2)", 22), ("attacks", 40)]
    rows = [
        (line["threat"], line["claim"], line["nist"], ", ".join(line["attacks"]))
        for line in lines["tested"]
    ]
    paper.table(columns, shortened(cut(rows, most), letters), size=7.2)
    paper.heading("Threat models that were not tested")
    columns = [("threat model", 42), ("claim", 11), ("kind (NIST AI 100-2)", 22), ("why", 40)]
    rows = [(one["threat"], one["claim"], one["nist"], one["why"]) for one in lines["not tested"]]
    paper.table(columns, shortened(cut(rows, most), letters), size=7.2)
    if lines["does not apply"]:
        paper.skip(3)
        count = len(lines["does not apply"])
        text = f"{count} more do not apply to this federation; verdict.json has the reason of each."
        paper.paragraph(text, 7.4, SOFT)
    paper.heading("Differential privacy (rows as in NIST SP 800-226)")
    card = run.folder.card()
    if card:
        for one in [card, *card.get("beside", [])]:
            lines_of_card = [(name, text_of(value)) for name, value in card_rows(one)]
            paper.table([("", 20), ("", 80)], shortened(lines_of_card, letters), size=7.2)
            paper.skip(4)
    else:
        claimed = found.get("epsilon", {}).get("sentence")
        paper.paragraph(claimed or "No ε is claimed for this federation, so none was checked.")
    paper.heading("What is left open")
    for text in residual(run):
        paper.paragraph(f"–  {short(text, max(letters, 160))}", 8.2)
        paper.skip(1.5)
    signature(paper)


def scope(run: Run) -> Iterator[tuple[str, str]]:
    scenario, found = run.scenario, run.audit
    federation, training = scenario.federation, scenario.training
    if "app" in found:
        yield from scope_of_app(run)
        return
    rounds = f"{found['rounds']['trained']} of {found['rounds']['wanted']} rounds trained"
    reached = f", {found['accuracy']:.1%} accuracy" if found["accuracy"] is not None else ""
    if training.local_steps:
        steps = f"{counted(training.local_steps, 'step')} on batches"
    else:
        steps = f"{counted(training.local_epochs, 'epoch')} in batches"
    yield "federation", f"{federation.clients} clients, {rounds}{reached}"
    yield "training", f"{steps} of {training.batch_size} in each round; model {scenario.model.name}"
    yield "data", scenario.data.name
    yield "defence", run.defence
    yield "victims", f"{found['victims']} samples of {found['clients']} clients were attacked"
    given = found["minutes"]["given"]
    allowed = f" of {given:g} allowed" if given is not None else ""
    yield "time", f"{found['minutes']['used']:g} minutes{allowed}; {found['work']['units']} units"
    if found["advice"]:
        yield "advice", found["advice"]
    yield "next step", f"{found['next']['what']} {found['next']['command']}"


def scope_of_app(run: Run) -> Iterator[tuple[str, str]]:
    """The same for somebody's Flower app, whose settings are its own."""
    found, app = run.audit, run.audit["app"]
    facts, truth = app["facts"], app["truth"]
    name = " ".join(filter(None, (app["publisher"], app["name"], app["version"])))
    yield "app", f"{name}, commit {app['commit'] or 'unknown'}, SHA-256 {app['sha256']}"
    yield "settings", ", ".join(f"{key} = {value}" for key, value in app["run-config"].items())
    rounds = f"{found['rounds']['trained']} of {found['rounds']['wanted']} rounds trained"
    masked = "; secure aggregation" if app["secure-aggregation"] else ""
    yield "federation", f"{app['clients']} clients, {rounds}{masked}"
    steps = ", ".join(map(str, truth.get("steps", ()))) or "unknown"
    batch = facts.get("batch_size") or "unknown"
    yield (
        "training",
        f"{truth.get('optimiser') or 'unknown'}, steps {steps}, batches of {batch}; model "
        f"{truth.get('model') or 'unknown'}; loss {', '.join(truth.get('loss', ())) or 'unknown'}",
    )
    yield "data", ", ".join(app["data"]) or "the app's own"
    yield "victims", f"{found['victims']} samples of {found['clients']} clients were attacked"
    given, used = found["minutes"]["given"], found["minutes"]["used"]
    yield "time", f"{used:g} minutes of {given:g} allowed"
    yield "next step", f"{found['next']['what']} {found['next']['command']}"


def question(one: Mapping[str, Any], word: str) -> tuple[str, ...]:
    metric = METRICS.build(one["metric"])
    if one["bound"] is None:
        values = [
            f"{value:.0%}" if value is not None else "–" for value in (one["worst"], one["blind"])
        ]
        bound = f"{one['limit']:.0%} right"
    else:
        values = [metric.shown(one["worst"]), metric.shown(one["blind"])]
        side = "above" if metric.leaks == "high" else "below"
        bound = f"none {side} {metric.shown(one['bound'])}"
    hit = f"{one['hits']} of {one['victims']} ({one['clients']} clients)"
    interval = f"{one['low']:.0%} to {one['high']:.0%}"
    return (one["claim"], word, hit, interval, *values, bound, one["attack"] or "–")


def server_sentences(found: Mapping[str, Any]) -> Iterator[str]:
    """What a server could ask for, and what one that changes the model reads."""
    for part in ("possible", "malicious"):
        text = found.get(part, {}).get("sentence", "")
        if text:
            yield text


def sources(run: Run) -> Iterator[tuple[str, str]]:
    """Date, commit and sums: what a second audit is compared with."""
    made = run.folder.manifest()
    inputs = made["inputs"]
    yield "date", date_of(run)
    yield "commit", str(run.environment.get("commit") or "not from a checkout")
    if "app" not in run.audit:  # the scope has the app's own
        yield "scenario (SHA-256)", made["files"]["scenario.toml"]["sha256"]
    yield "lock", inputs["lock"] or "none: not from a checkout"
    yield "installed packages", inputs["packages"]
    for name, total in () if "app" in run.audit else inputs["data"].items():
        yield f"data {short(name, 30)}", total or "not on this machine"
    yield "verdict.json", made["files"]["verdict.json"]["sha256"]
    whole = hashlib.sha256(run.folder.manifest_file.read_bytes()).hexdigest()
    yield "manifest.json", whole


def residual(run: Run) -> Iterator[str]:
    """What a reader must not take from the verdict."""
    found = run.audit
    if found["outcome"] == "leaks":
        yield "The federation leaks as it is configured. Do not run it on private data as it is."
    for one in found["questions"]:
        if word_of(one, found["doubts"]) == "holds" and one["bound"] is not None:
            by_client = one["unit"] == "client"
            whose = "clients may have a sample that leaks" if by_client else "samples may leak"
            yield (
                f"{one['claim']}: up to {one['most']:.0%} of {whose} all the same "
                f"({LEVEL:.0%} confidence, from {one['victims']} samples of {one['clients']} "
                "clients)."
            )
    if known := sorted(set(found.get("told", ()))):
        of_values = [one for one in found["questions"] if one["bound"] is not None]
        drawn = sum(one["hits"] for one in of_values if one["claim"] in known)
        yield (
            f"{' and '.join(known)}: only a server was asked that is told more than the real one, "
            f"about one batch of each client. It draws {drawn} samples. The updates themselves "
            "were not searched."
        )
    for text in found["doubts"][:2]:
        yield short(text[:1].upper() + text[1:] + ".", 200)
    if len(found["doubts"]) > 2:
        yield f"{len(found['doubts']) - 2} more doubts are in verdict.json."
    untested = sum(line["state"] == "not tested" for line in found["coverage"])
    if untested:
        yield f"{untested} threat models were not tested. Nothing is known about them."
    if found["possible"]["outcome"] == "leaks":
        yield "A server can ask clients for rounds that leak, unless their terms forbid it."
    if run.folder.card():
        yield "ε is what clients claim; canaries can refute it and cannot prove it."
    yield (
        "Attacks that nobody has tried may do better. The verdict is about these settings, this "
        "data and this model: audit again when one of them changes."
    )


def signature(paper: Paper) -> None:
    """Two people, each with lines for a name, a function, a date and a hand."""
    height = SIGNED * paper.scale
    paper.room(height + 10)
    paper.y = min(paper.y, BOTTOM + height)  # at the foot of the page
    middle = (LEFT + RIGHT) / 2
    top = paper.y
    for title, left, right in (
        ("Audited by", LEFT, middle - 14),
        ("Accepted by", middle + 14, RIGHT),
    ):
        paper.y = top
        paper.skip(10)
        paper.put(title, left, 9 * paper.scale, INK, bold=True)
        for word in ("Name", "Function", "Date", "Signature"):
            paper.skip(19)
            paper.put(word, left, 7.4 * paper.scale, SOFT)
            paper.rule(LINE, left + 46, right)


def date_of(run: Run) -> str:
    return str(run.environment.get("date") or "date not recorded")


def counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def text_of(value: Any) -> str:
    """A cell of a table as text."""
    return str(getattr(value, "text", value))


def short(text: str, most: int = LONGEST) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def shortened(rows: Iterable[Sequence[str]], letters: int) -> list[tuple[str, ...]]:
    return [tuple(short(cell, letters) for cell in row) for row in rows]


def cut(rows: Sequence[tuple[str, ...]], most: int) -> list[tuple[str, ...]]:
    """The first rows, and how many more there are; one that says none where there is none."""
    if len(rows) <= most:
        return list(rows) or [("none", "", "", "")]
    return [*rows[: most - 1], (f"and {len(rows) - most + 1} more", "", "", "see verdict.json")]
