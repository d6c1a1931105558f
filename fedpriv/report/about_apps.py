"""What was found about a Flower app by looking, in a few lines for the first screen."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def facts_in(app: Mapping[str, Any]) -> tuple[str, ...]:
    """What the server of the app knows, and what its clients did; nothing for other audits."""
    facts, truth = app.get("facts", {}), app.get("truth", {})
    return tuple(lines_of(facts, truth)) if facts else ()


def lines_of(facts: Mapping[str, Any], truth: Mapping[str, Any]) -> Iterator[str]:
    def told(name: str) -> str:
        return shown(facts.get(name))

    yield f"model {shown(truth.get('model'))}, loss {shown(truth.get('loss'))}"
    numbers = [f"{word} {facts[key]:g}" for key, word in RATES.items() if facts.get(key)]
    yield f"{told('optimiser')}, {', '.join(numbers) or 'rates unknown'}"
    yield (
        f"{shown(truth.get('steps'))} steps on batches of {told('batch_size')}; "
        f"{told('num_examples')} samples behind an update"
    )
    dropout = "no dropout" if facts.get("dropout") == 0 else f"dropout {told('dropout')}"
    random = "none" if truth.get("augmentation") == [] else shown(truth.get("augmentation"))
    yield f"{told('mode')} mode, {dropout}; random augmentation: {random}"
    scale = ""
    if facts.get("std"):
        scale = f", mean {shown(facts['mean'])}, std {shown(facts['std'])}"
    elif len(facts.get("input_shape") or ()) == 3:
        scale = ", normalisation unknown"
    shape = "×".join(map(str, facts.get("input_shape") or ())) or "unknown"
    yield f"inputs {shape}{scale}; {told('classes')} classes"
    unknown = sorted(name.replace("_", "-") for name, value in facts.items() if value is None)
    yield f"{len(facts) - len(unknown)} of {len(facts)} facts known" + (
        f"; unknown: {', '.join(unknown)}" if unknown else ""
    )


RATES = {"lr": "learning rate", "momentum": "momentum", "weight_decay": "weight decay"}


def shown(value: Any) -> str:
    """A value in words; several are listed, a range of numbers by its ends."""
    if value is None or value == "":
        return "unknown"
    if not isinstance(value, Sequence) or isinstance(value, str):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if not value:
        return "unknown"
    if len(value) > 3 and all(isinstance(each, int) for each in value):
        return f"{min(value)} to {max(value)}"
    same = set(map(repr, value))
    return shown(value[0]) if len(same) == 1 else ", ".join(map(shown, value))
