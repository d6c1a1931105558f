"""A client's own terms: what it insists on, whatever a server's scenario says.

Whoever submits a run writes its scenario. A real client therefore
- adds the plugins that its owner lists in `terms.toml` in its state folder, as in a scenario,
- builds only what fedpriv or its entry points name: an import path such as `os:system` would let a
  server call any function on the client,
- reads data only where its owner put it ($FEDPRIV_DATA), not from a folder that the scenario names,
- writes the samples it used to its disk only if its owner says `keep-truth = true`.
A simulated client has no terms: the scenario's author and the clients' owner are one person.
"""

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from flwr.app import Context, Message

from fedpriv.clients.protection.persistence import folder_of, simulated
from fedpriv.clients.truth import FOLDER as TRUTH
from fedpriv.errors import BadInput, BadScenario, FedprivError, Refused
from fedpriv.scenario import Scenario, from_tables
from fedpriv.scenario.binding import bound
from fedpriv.scenario.sections import Spec
from fedpriv.wire import refusal

FILE = "terms.toml"
CallNext = Callable[[Message, Context], Message]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What the owner of a client insists on."""

    plugins: tuple[Spec, ...] = ()  # they act before those of the scenario
    keep_truth: bool = False  # write the samples it used to `truth` in the state folder
    imports: tuple[str, ...] = ()  # import paths that scenarios may name

    def applied(self, scenario: Scenario) -> Scenario:
        """The scenario as this client follows it; Refused when it asks for too much."""
        for name in imported_names(scenario):
            if name not in self.imports:
                raise Refused(
                    f"The scenario names the import path '{name}'; this client builds only what is "
                    f"known by a short name, or what its owner lists under `imports` in {FILE}."
                )
        known = {spec.name for spec in self.plugins}
        theirs = tuple(spec for spec in scenario.plugins if spec.name not in known)
        return replace(
            scenario,
            data=replace(scenario.data, root=""),
            plugins=self.plugins + theirs,
        )


def imported_names(scenario: Scenario) -> Iterable[str]:
    """Every name a client would build that is an import path."""
    names = [scenario.model.name, scenario.data.name, *(spec.name for spec in scenario.plugins)]
    names += [scenario.representation.autoencoder] if scenario.representation else []
    return [name for name in names if ":" in name]


def terms_in(folder: Path) -> Terms:
    """The terms in a client's state folder; none but the built-in ones when there is no file."""
    path = folder / FILE
    if not path.exists():
        return Terms()
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
        plugins = from_tables({"plugins": tables.pop("plugins", [])}).plugins
        return Terms(plugins=plugins, **bound(Terms, tables, f"'{path}'", given=("plugins",)))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, BadInput) as error:
        raise BadScenario(f"The client's terms '{path}' cannot be used: {error}") from error


def on_own_terms(message: Message, context: Context, call_next: CallNext) -> Message:
    """A Flower mod: a real client follows the scenario as far as its terms allow."""
    if simulated(context):
        return call_next(message, context)
    folder, sent, own = folder_of(context), context.run_config, context.node_config
    try:
        terms = terms_in(folder) if folder else Terms()
        context.run_config = {"scenario": terms.applied(Scenario.of(sent)).text()}
        if terms.keep_truth and folder:
            context.node_config = {**own, TRUTH: str(folder / "truth")}
        return call_next(message, context)
    except FedprivError as error:
        return refusal(message, error)
    finally:
        context.run_config, context.node_config = sent, own
