"""Updates out of an app's messages, whatever records it sends, and sums behind SecAgg+."""

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.server import LegacyContext, ServerApp, ServerConfig
from flwr.server.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from torch import nn

from fedpriv.clients.noticing import Eyes
from fedpriv.simulations.apps.summing import sums
from fedpriv.simulations.apps.updates import sums_of, weights_in
from fedpriv.simulations.apps.watching import Watched, WatchedGrid, contexts_for
from fedpriv.simulations.federation.backends import InlineBackend


def records(**parts):
    return RecordDict({name: ArrayRecord(state) for name, state in parts.items()})


def test_records_named_for_parts_are_one_model():
    net = nn.ModuleDict({"body": nn.Linear(3, 2), "head": nn.Linear(2, 1)})
    moved = {key: value + 1 for key, value in net.state_dict().items()}
    parts = {
        part: {k.removeprefix(f"{part}."): v for k, v in moved.items() if k.startswith(part)}
        for part in net
    }
    sent = records(**{part: net[part].state_dict() for part in net})
    before, after = weights_in(sent, records(**parts), moved)
    assert before.keys() == after.keys() == net.state_dict().keys()
    assert torch.equal(after["head.weight"], moved["head.weight"])


def test_a_part_that_did_not_come_back_is_as_it_was_sent():
    sent = {"body": torch.zeros(2), "head": torch.zeros(2)}
    reply = {"head": torch.ones(2)}
    before, after = weights_in(records(a=sent), records(a=reply), {**sent, **reply})
    assert torch.equal(after["body"], before["body"]) and after["head"].tolist() == [1, 1]


def test_changes_are_told_from_weights():
    sent, trained = {"w": torch.tensor([1.0, 2.0])}, {"w": torch.tensor([1.5, 1.5])}
    change = {"w": trained["w"] - sent["w"] + 0.01}  # with a little noise on it
    for state in (change, [change["w"].numpy()]):
        own = records(a=sent) if isinstance(state, dict) else records(a=[sent["w"].numpy()])
        _, after = weights_in(own, records(a=state), trained)
        torch.testing.assert_close(*after.values(), trained["w"] + 0.01)
    _, after = weights_in(records(a=sent), records(a=trained), trained)
    assert torch.equal(after["w"], trained["w"])


def test_clients_get_records_of_their_own():
    """SecAgg+ sends one record to all clients, and each takes an entry out of it."""
    backend = InlineBackend()
    taken = []

    def app(message, context):
        taken.append(message.content.config_records["c"].pop("stage"))
        return message

    backend.build(lambda: app)
    content = RecordDict({"c": ConfigRecord({"stage": "setup"})})
    for node in (2, 3):
        backend.process_message(Message(content, dst_node_id=node, message_type="train"), None)
    assert taken == ["setup", "setup"]


def test_clients_that_were_never_asked_give_samples_that_nobody_trained_on(tmp_path):
    samples = torch.rand(4, 8, 3)

    def train(message, context):
        own = samples[int(context.node_config["partition-id"])]
        net = nn.Linear(3, 2)
        rate = message.content.config_records["c"].pop("lr")  # a client may take its record apart
        optimiser = torch.optim.SGD(net.parameters(), lr=rate)
        nn.functional.cross_entropy(net(own), torch.zeros(8, dtype=torch.long)).backward()
        optimiser.step()
        return Message(records(a=net.state_dict()), reply_to=message)

    app = ClientApp()
    app.train()(train)
    with Eyes() as eyes:
        watched = Watched(tmp_path, eyes)
        grid = WatchedGrid(app, watched, contexts_for(4, {}), lambda: True)
        content = records(a=nn.Linear(3, 2).state_dict())
        content["c"] = ConfigRecord({"lr": 0.1})
        grid.send_and_receive(
            [Message(content, dst_node_id=node, message_type="train") for node in (3, 5)]
        )
        grid.ask_bystanders()
        grid.close()
    assert {seen.node for seen in watched.evidence} == {1, 3}
    found = torch.stack([x for x, _ in watched.bystanders])
    assert torch.equal(found, samples[[0, 2]])


def test_the_sum_behind_secure_aggregation_is_read_before_the_server_adds_noise(tmp_path):
    client = ClientApp(mods=[secaggplus_mod])
    means = []

    @client.train()
    def train(message: Message, context: Context) -> Message:
        net = nn.Linear(3, 2)
        record = next(iter(message.content.array_records.values()))
        arrays = [torch.from_numpy(value) for value in record.to_numpy_ndarrays()]
        net.load_state_dict(dict(zip(net.state_dict(), arrays, strict=True)))
        x = torch.full((4, 3), float(context.node_config["partition-id"]))
        optimiser = torch.optim.SGD(net.parameters(), 0.1)
        nn.functional.cross_entropy(net(x), torch.tensor([0, 1, 1, 1])).backward()
        optimiser.step()
        means.append(net.weight.detach().clone())
        reply = ArrayRecord([value.numpy() for value in net.state_dict().values()])
        fit = {"fitres.parameters": reply}
        return Message(
            RecordDict(
                {
                    **fit,
                    "fitres.num_examples": MetricRecord({"num_examples": 4}),
                    "fitres.metrics": ConfigRecord({}),
                    "fitres.status": ConfigRecord({"code": 0, "message": ""}),
                }
            ),
            reply_to=message,
        )

    server = ServerApp()

    @server.main()
    def main(grid, context):
        start = [np.zeros((2, 3), np.float32), np.zeros(2, np.float32)]
        strategy = DifferentialPrivacyServerSideFixedClipping(
            FedAvg(fraction_evaluate=0.0, initial_parameters=ndarrays_to_parameters(start)),
            noise_multiplier=50.0,
            clipping_norm=100.0,
            num_sampled_clients=3,
        )
        legacy = LegacyContext(context=context, config=ServerConfig(1), strategy=strategy)
        DefaultWorkflow(fit_workflow=SecAggPlusWorkflow(3, 2))(grid, legacy)

    with Eyes() as eyes:
        watched = Watched(tmp_path, eyes)
        grid = WatchedGrid(client, watched, contexts_for(3, {}), lambda: True)
        with sums(watched.heard):
            server(grid, Context(1, 1, {}, RecordDict(), {}))
        grid.close()
    assert watched.summed and not watched.evidence and not watched.failed
    (seen,) = sums_of(watched, 3)
    assert seen.batch_size == 12
    mean = torch.stack(means).mean(0)
    # SecAgg+ rounds: 4 of at most 1000 examples leave 16,777 steps for values from -8 to 8.
    torch.testing.assert_close(seen.received["0"], mean, atol=16 / 16_777, rtol=0)
