"""A scenario and a message against the owner's terms, before any data are touched.

A real client
- answers only kinds of message, data sets, layers and training settings that its terms allow,
- refuses a message whose answer a plugin of the terms would not protect,
- builds only what fedpriv or its entry points name: an import path such as `os:system` would let a
  server call any function on the client,
- opens no file that a scenario names: its answer would tell whether the file is there,
- reads data where its owner put it ($FEDPRIV_DATA), and computes on the device of its choice.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from flwr.app import Context, Message, MessageType

from fedpriv.clients.catalogue import check_plugins, plugin_of
from fedpriv.clients.job import accounted
from fedpriv.clients.protection.folder import folder_of, simulated
from fedpriv.clients.protection.reasons import refused
from fedpriv.clients.protection.terms import FILE, PRODUCTS, Terms, as_data, terms_of
from fedpriv.clients.truth import FOLDER as TRUTH
from fedpriv.errors import BadScenario, Refused
from fedpriv.scenario import Scenario, builtin
from fedpriv.scenario.sections import Representation, Spec
from fedpriv.wire import ALONE

LONGEST = 65_536  # characters of a scenario
EPOCH = 100  # what an epoch counts as, in steps, where the number of samples is secret
PATH = re.compile(r"[/\\~]|\.[A-Za-z]\w*$")
CallNext = Callable[[Message, Context], Message]


def on_own_terms(message: Message, context: Context, call_next: CallNext) -> Message:
    """A Flower mod: a real client follows the scenario as far as its terms allow."""
    if simulated(context):
        return call_next(message, context)
    sent, own = context.run_config, context.node_config
    try:
        terms, folder = own_terms(context), folder_of(context)
        scenario = screened(terms, announced(sent), message)
        check_division(scenario, own)
        context.run_config = {"scenario": scenario.text()}
        if terms.keep_truth and folder:
            context.node_config = {**own, TRUTH: str(folder / "truth")}
        return call_next(message, context)
    except Exception as error:
        return refused(message, context, error)
    finally:
        context.run_config, context.node_config = sent, own


def own_terms(context: Context) -> Terms:
    """The client's terms; the server is not told what is wrong with a file of the owner's."""
    try:
        return terms_of(context)
    except BadScenario as error:
        raise RuntimeError(f"the terms cannot be used: {error}") from error


def announced(run_config: Mapping[str, Any]) -> Scenario:
    """The scenario of a run, from its own text or a built-in name; no file is opened for it."""
    text = str(run_config.get("scenario", "quickstart"))
    if len(text) + len(str(run_config.get("set", ""))) > LONGEST:
        raise Refused(f"The scenario has more than {LONGEST} characters.")
    if not text.startswith("{") and text not in builtin():
        raise Refused("A client takes a scenario by its text or a built-in name, not from a file.")
    return Scenario.of(run_config)


def screened(terms: Terms, scenario: Scenario, message: Message) -> Scenario:
    """The scenario as this client follows it; Refused when it asks for too much."""
    kind = message.metadata.message_type
    if kind != MessageType.QUERY and kind not in terms.messages:
        raise Refused(f"This client does not answer messages of the kind '{kind}'.")
    check_names(terms, scenario)
    check_task(terms, scenario)
    followed = replace(
        scenario,
        data=replace(scenario.data, root=""),
        federation=replace(scenario.federation, device="auto"),
        plugins=terms.plugins + added(terms, scenario),
    )
    if kind == MessageType.QUERY:
        return followed
    check_protection(terms, followed, kind)
    check_training(terms, followed, kind)
    if PRODUCTS[kind] in ("codes", ""):
        check_codes(terms, followed.representation)
    if terms.secagg and PRODUCTS[kind] == "update" and kind != ALONE:
        check_sum(followed)
    return followed


def check_names(terms: Terms, scenario: Scenario) -> None:
    """Refused for import paths, and for options that may be the names of files."""
    for name in imported_names(scenario):
        if name not in terms.imports:
            raise Refused(
                f"The scenario names the import path '{name}'; this client builds only what is "
                f"known by a short name, or what its owner lists under `imports` in {FILE}."
            )
    parts = [scenario.model.options, *(spec.options for spec in scenario.plugins)]
    parts += [scenario.representation.options] if scenario.representation else []
    for options in parts:
        for name, value in options.items():
            if any(PATH.search(text) for text in texts_in(value)):
                raise Refused(
                    f"The option '{name}' looks like the name of a file; this client opens no "
                    "file that a scenario names."
                )


def texts_in(value: Any) -> Iterable[str]:
    """Every text in an option, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from texts_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_in(item)


def imported_names(scenario: Scenario) -> Iterable[str]:
    """Every name a client would build that is an import path."""
    names = [scenario.model.name, scenario.data.name, *(spec.name for spec in scenario.plugins)]
    names += [scenario.representation.autoencoder] if scenario.representation else []
    return [name for name in names if ":" in name]


def check_task(terms: Terms, scenario: Scenario) -> None:
    """Refused unless the owner named this data set, with these options."""
    data = as_data(Spec(scenario.data.name, scenario.data.options))
    if data not in [as_data(spec) for spec in terms.tasks]:
        known = ", ".join(dict.fromkeys(spec.name for spec in terms.tasks)) or "none so far"
        raise Refused(
            f"This client's owner does not allow the data '{scenario.data.name}' with these "
            f"options; allowed under `tasks`: {known}."
        )


def added(terms: Terms, scenario: Scenario) -> tuple[Spec, ...]:
    """The plugins that the scenario adds to the owner's, which keep the owner's options."""
    known = {spec.name for spec in terms.plugins}
    theirs = tuple(spec for spec in scenario.plugins if spec.name not in known)
    for spec in theirs:
        if spec.name not in (*terms.extra_plugins, *terms.imports):
            raise Refused(
                f"The scenario adds the plugin '{spec.name}', which is not among the "
                "`extra-plugins` of this client."
            )
        for name, value in spec.options.items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if number and not (math.isfinite(value) and abs(value) <= terms.local_steps):
                raise Refused(
                    f"Plugin '{spec.name}': '{name}' must be a finite number of at most "
                    f"{terms.local_steps}, got {value!r}."
                )
    return theirs


def check_division(scenario: Scenario, own: Mapping[str, Any]) -> None:
    """Refused when, under an ε, a server decides which part of the data is the client's.

    One sample more would change the whole part. And a limit, or a number of clients, above the
    number of samples cannot be followed, so that the answer would tell how many there are.
    """
    if not accounted(scenario):
        return
    if scenario.data.limit is not None:
        raise Refused(
            f"data.limit is {scenario.data.limit}; under dp this client trains on all its samples. "
            "Leave data.limit out."
        )
    if "num-partitions" not in own:
        raise Refused(
            "Under dp a client's owner says which part of the data is its own: it must be started "
            "with --node-config 'num-partitions=1 …' if all of them are."
        )


def check_protection(terms: Terms, scenario: Scenario, kind: str) -> None:
    """Refused when a plugin would not act on what the answer holds."""
    product = PRODUCTS[kind]
    if not product:
        return
    plugin_of(scenario.plugins)  # senseless options are said here, before data are read
    counted = accounted(scenario)
    if product != "figures" and not (kind == ALONE and counted):
        check_plugins(scenario.plugins, product)
    elif kind == MessageType.EVALUATE and plugin_of(terms.plugins).evaluates:
        return  # the owner's ε counts these figures
    elif terms.plugins or counted:
        names = ", ".join(spec.name for spec in terms.plugins or scenario.plugins)
        raise Refused(
            f"'{kind}' gives figures of this client's samples, which its plugins do not protect "
            f"({names})."
        )


def check_training(terms: Terms, scenario: Scenario, kind: str) -> None:
    """Refused for batches or steps outside the terms; without an ε, `charged` counts all steps."""
    if PRODUCTS[kind] != "update":
        return
    training, (low, high) = scenario.training, terms.batch_size
    if not low <= training.batch_size <= high:
        raise Refused(
            f"training.batch-size is {training.batch_size}; this client's terms allow {low} to "
            f"{high}."
        )
    # Under an ε the number of samples is secret, and nothing that is said may depend on it.
    an_epoch = EPOCH if accounted(scenario) else 1
    check_steps(terms, training.local_steps or training.local_epochs * an_epoch)


def check_steps(terms: Terms, steps: int) -> None:
    """Refused for more work than the terms allow for one message."""
    if steps > terms.local_steps:
        raise Refused(
            f"The message asks for more than the {terms.local_steps} training steps that this "
            "client's terms allow for one message (`local-steps`)."
        )


def check_codes(terms: Terms, wanted: Representation | None) -> None:
    """Refused for a layer or a label that the owner does not share codes of."""
    if wanted is None:
        raise Refused("The scenario has no [representation], so that no codes can be shared.")
    if wanted.layer not in terms.layers:
        raise Refused(f"This client shares no codes of the layer '{wanted.layer}'.")
    for task in wanted.tasks:
        if task not in terms.labels:
            raise Refused(f"This client shares no codes for the label '{task}'.")
    check_steps(terms, max(wanted.encoder_epochs, wanted.decoder_epochs, wanted.task_epochs))


def check_sum(scenario: Scenario) -> None:
    if not scenario.federation.secagg:
        raise Refused("This client's updates leave only in sums: set federation.secagg = true.")
