"""The ClientApp: a message in, the plugins' hooks in order, a message out.

A simulation and a deployment run the same app.
"""

import math
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from torch import nn

from fedpriv.clients.catalogue import plugin_of
from fedpriv.clients.job import fit, make_job, own_split, share_of
from fedpriv.clients.plugin import Evaluation
from fedpriv.clients.protection.charging import charged
from fedpriv.clients.protection.clipping import clipped_as_asked
from fedpriv.clients.protection.figures import coarse_figures, rounded
from fedpriv.clients.protection.folder import simulated
from fedpriv.clients.protection.persistence import persistent
from fedpriv.clients.protection.reasons import refused
from fedpriv.clients.protection.screening import on_own_terms
from fedpriv.clients.protection.secagg import masked
from fedpriv.clients.protection.secret import secrets_of
from fedpriv.clients.protection.terms import terms_of
from fedpriv.clients.representation import learn_pool, publish_encoder, share_codes, share_columns
from fedpriv.clients.truth import Watch, truth_folder
from fedpriv.errors import FedprivError, Refused
from fedpriv.progress import still_wanted
from fedpriv.scenario import Scenario
from fedpriv.scenario.built import loaded, model_of, test_samples, training_samples
from fedpriv.state import State, added, difference, state_of
from fedpriv.training import evaluate as evaluated
from fedpriv.wire import EXAMPLES, PARTITION, Memory, received, reply, round_of

Handler = Callable[[Message, Context], Message]
OWN_MODEL, LOSS = "own-model", "loss"


def answering(handler: Handler) -> Handler:
    """`handler`, with every error that a user can meet sent back as a reply that says why."""

    @wraps(handler)
    def answer(message: Message, context: Context) -> Message:
        try:
            return handler(message, context)
        except FedprivError as error:
            return refused(message, context, error)

    return answer


def trained(
    scenario: Scenario, start: State, server_round: int, context: Context
) -> tuple[nn.Module, State, dict[str, float]]:
    """Train for one round: the client's own model, the update that leaves it, and its report."""
    plugin = plugin_of(scenario.plugins)
    job = plugin.on_setup(make_job(scenario, start, server_round, context))
    folder, watch = truth_folder(scenario, server_round, context), Watch()
    if folder:
        watch.batches(job)
    job.report |= fit(job, watch.on_batch(plugin.on_batch) if folder else plugin.on_batch)
    after = {name: value.detach().cpu() for name, value in job.shared.state_dict().items()}
    update = plugin.on_update(difference(after, start), job)
    # Poisson sampling may have drawn no sample at all, and a run may have been stopped.
    if folder and watch.trained and still_wanted(1.0, math.nan):
        watch.truth(job, update).save(folder)
    return job.shared, update, plugin.on_figures(job.report)


def told(report: dict[str, float], context: Context) -> dict[str, float]:
    """The figures that leave beside an update: the training loss only if the owner says so."""
    if simulated(context) or terms_of(context).tell_loss:
        return report
    return {name: value for name, value in report.items() if name != LOSS}


def client_app(scenario_of: Callable[[Mapping[str, Any]], Scenario] = Scenario.of) -> ClientApp:
    """A ClientApp; `scenario_of` reads the scenario from the run's configuration."""
    app = ClientApp(mods=[on_own_terms, masked, charged, persistent, clipped_as_asked])

    @app.train()
    @answering
    def train(message: Message, context: Context) -> Message:
        scenario = scenario_of(context.run_config)
        start = received(message)
        _, update, report = trained(scenario, start, round_of(message), context)
        return reply(message, added(start, update), told(report, context))

    @app.train("standalone")
    @answering
    def train_alone(message: Message, context: Context) -> Message:
        scenario = scenario_of(context.run_config)
        memory = Memory(context.state)
        start = memory.recall(OWN_MODEL) or received(message)
        model, _, report = trained(scenario, start, round_of(message), context)
        memory.remember(OWN_MODEL, state_of(model))
        loss, accuracy = evaluated(model, *test_samples(scenario))
        own = {"accuracy": accuracy, "test-loss": loss}
        if not simulated(context):  # they are of a model that stays at home
            own = {name: rounded(value) for name, value in own.items()}
        return reply(message, None, told(report, context) | own)

    @app.evaluate()
    @answering
    def evaluate(message: Message, context: Context) -> Message:
        scenario = scenario_of(context.run_config)
        plugin = plugin_of(scenario.plugins)
        if plugin.accounted and not plugin.evaluates:
            raise Refused(
                "No ε counts figures of own samples here; dp's does with evaluation-noise."
            )
        _, share = share_of(scenario, context)
        _, held = own_split(scenario, share)
        model = loaded(model_of(scenario), received(message))
        x, y = (values[held] for values in training_samples(scenario))
        draw = secrets_of(context).fresh("round", round_of(message), "evaluation")
        if plugin.accounted:
            asked = Evaluation(model, x, y, round_of(message), Memory(context.state), draw)
            return reply(message, None, plugin.on_evaluation(asked))
        if simulated(context):
            loss, accuracy = evaluated(model, x, y)
        else:
            noise = terms_of(context).evaluation_noise
            loss, accuracy = coarse_figures(model, x, y, noise, draw)
        metrics = {"loss": loss, "accuracy": accuracy, EXAMPLES: len(held)}
        return reply(message, None, plugin.on_figures(metrics))

    @app.train("encoder")
    @answering
    def train_encoder(message: Message, context: Context) -> Message:
        scenario = scenario_of(context.run_config)
        return reply(message, *publish_encoder(scenario, round_of(message), context))

    @app.query("codes")
    @answering
    def codes(message: Message, context: Context) -> Message:
        scenario = scenario_of(context.run_config)
        encoder = received(message)
        return reply(message, *share_codes(scenario, encoder, round_of(message), context))

    @app.train("columns")
    @answering
    def columns(message: Message, context: Context) -> Message:
        scenario = scenario_of(context.run_config)
        return reply(message, *share_columns(scenario, round_of(message), context))

    @app.train("pool")
    @answering
    def learn(message: Message, context: Context) -> Message:
        scenario = scenario_of(context.run_config)
        pool = received(message)
        return reply(message, None, learn_pool(scenario, pool, context))

    @app.query()
    @answering
    def who(message: Message, context: Context) -> Message:
        scenario = scenario_of(context.run_config)
        partition, share = share_of(scenario, context)
        found = {PARTITION: partition, EXAMPLES: len(share)}
        return reply(message, None, plugin_of(scenario.plugins).on_figures(found))

    return app


app = client_app()
