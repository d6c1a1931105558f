"""What every column of a run's tables means. A name is spelled and explained here, once."""

from collections.abc import Iterable

BLIND = "-blind"  # the same metric for a guess made without evidence
WORST = "-worst"  # of all victims

# What a row of scores begins with, in this order; the metrics and their blind values follow.
HEAD = {
    "run": "the run, or the variant of one",
    "round": "the round whose evidence was attacked",
    "node": "the client, by its partition; the party, where codes are shared",
    "victim": "the sample that the claim is about, by its number in the data set",
    "attack": "the attack",
    "by": "who carries it out: curious server, malicious server, curious party, or an analysis",
    "knows": "the plugins that the attacker knows of",
    "claim": "what is claimed: sample, labels, member, owner, attribute, …",
    "attribute": "the attribute that was read",
    "plugins": "the defences of the clients",
    "defence": "sweeps: the name of the defence",
    "value": "sweeps: the value of the option that is varied",
    "seed": "sweeps: the seed",
    "batch": "sweeps: the batch size of the attacked updates",
}
TAIL = {
    "loss": "how badly the claim explains the evidence, by the attack's own measure",
    "seconds": "time that the attack took for this update, all its samples together",
    "partial": "whether the attack was cut short",
    "clean-norm": "norm of the update without the defence",
    "added-norm": "norm of what the defence added to it",
    "m": "log10(1 + clean-norm / added-norm), the abscissa of PPC curves (SPN fig. 5)",
    "m-biases": "the same with the norms over biases alone, as the paper has it",
    "bound": "by SPN theorem 2.2 the linear attack's relative error here is at most this",
    "score": "membership: the attack's score of this candidate; higher speaks for a member",
    "others": "membership: how many candidates are no members",
    "gap": "membership: accuracy on members minus accuracy on others, the overfitting of the model",
    "guess": "attributes: the class that was guessed",
    "truth": "attributes: the class that is true",
    "parameter": "sweeps: the option that is varied",
    "folder": "sweeps: the folder with evidence and pictures, below the sweep's",
}
ROUNDS = {
    "round": "number of the round, from 1",
    "asked": "clients that were asked",
    "clients": "clients whose answers could be used",
    "failed": "for each other one: `client` and `why`",
    "bytes-down": "bytes of arrays that the server sent",
    "bytes-up": "bytes of arrays that clients sent",
    "accuracy": "accuracy of the new public model on the test samples, 0 to 1",
    "loss": "its mean cross-entropy there",
    "seconds": "time that the round took",
    "train-loss": "mean training loss that clients report",
    "train-steps": "mean number of local steps that clients report",
    "train-epsilon": "largest ε that a client says it has spent so far",
    "train-…": "any other figure that clients report, as a mean",
    "client-…": "figures of the clients' own evaluations (`training.holdout`), as a mean",
    "user-epsilon": "ε of user-level privacy that is spent so far",
    "user-privacy": "what that ε rests on",
    "claimed": "the figures in this line that clients claim and nobody can check",
    "odd": "what was odd about clients in this round, in words",
}
RESULTS = {
    **HEAD,
    "parameter": TAIL["parameter"],
    "accuracy": "accuracy of the trained model on the test samples, 0 to 1",
    "epsilon": "ε that the training spent",
    "bytes-up": "bytes that clients sent while training",
    "training-seconds": "time that the training took",
    "victims": "updates that were attacked",
    "membership": "SPN's membership distance: labels that were not recovered, 0 to 1",
    "tracing": "SPN's tracing distance: owners that were not found, 0 to 1",
    "membership-blind": "the membership distance of a blind guess",
    "tracing-blind": "the tracing distance of a blind guess",
    "clean-norm": TAIL["clean-norm"],
    "added-norm": TAIL["added-norm"],
    "m": TAIL["m"],
    "m-biases": TAIL["m-biases"],
    "seconds": "time that the attack took",
    "region": "SPN's region of the relative error: green, white or red",
    "error": "why there is no result",
}
CAP = {
    **{name: HEAD[name] for name in ("attack", "knows", "defence", "batch")},
    "values": "how many settings of the defence the figure comes from",
    "seeds": "how many seeds",
    "accuracy": "mean accuracy over these settings, 0 to 1",
    "accuracy-spread": "standard deviation of it over the seeds",
    "cap-reconstruction": "mean of accuracy times relative error; higher is better (SPN sect. 4.1)",
    "cap-membership": "the same with the membership distance",
    "cap-tracing": "the same with the tracing distance",
    "cap-reconstruction-at-equal-m": "the same, averaged over the m that all defences cover",
    "missing": "cells of this line without a result",
    "cap-…-spread": "standard deviation of the figure over the seeds",
}
PARETO = {
    "data": "the data set",
    "samples": "training samples, where a scenario takes fewer than all",
    "way": "what is shared: codes, columns or updates",
    "run": HEAD["run"],
    "plugins": HEAD["plugins"],
    "accuracy": "what is learned, 0 to 1, for new samples that are shared like the others",
    "accuracy_error": "the standard error of that accuracy",
    "accuracy_clean": "the same for codes of one's own samples, without noise",
    "mse": "the median squared error of the best attack; smaller leaks more",
    "mse_low": "lower end of its 95 % interval over samples",
    "mse_high": "upper end",
    "mse_blind": "the median squared error of a guess without evidence",
    "n": "samples that the attack was scored on",
    "attack": "the attack that reached it",
    "front": "whether no other run on the same samples is better in both",
}
SUMMARY = {
    "run": HEAD["run"],
    "plugins": HEAD["plugins"],
    "attack": HEAD["attack"],
    "accuracy": "accuracy of what is learned from the pooled codes, 0 to 1",
    "accuracy-clean": "the same for codes without noise",
    "own-accuracy": "accuracy of a party that learns from its own samples alone",
    "f1": "F1 of what is learned",
    "mcc": "Matthews' correlation of what is learned",
    "bytes": "all that was sent to learn it",
    "attribute-f1": "F1 of an attribute that was read off",
    "attribute-mcc": "Matthews' correlation of it",
    "rate-r": "how often the attacker says the class that noise pulls the attribute towards",
    "within": "spread of a person's codes (ARL table 3)",
    "between": "spread between persons",
    "lda": "between over within",
    "verifier-accuracy": "accuracy of the network that tells faces apart",
    "seconds": "time that the attack took",
}
PARTITION = {
    "client": "the client, by its number",
    "class-…": "its training samples of a class",
    "samples": "all its training samples",
}


def explained(column: str, known: Iterable[str], metrics: Iterable[str]) -> bool:
    """Whether a column stands in a table above, or is a metric, its blind or its worst value."""
    bare = column.removesuffix(BLIND).removesuffix(WORST)
    if bare in metrics or column in known:
        return True
    patterns = [name.split("…") for name in known if "…" in name]
    return any(column.startswith(a) and column.endswith(b) for a, b in patterns)
