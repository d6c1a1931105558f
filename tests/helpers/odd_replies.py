"""Replies that no server should trust: each kind takes an honest reply and gives an odd one."""

import io

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict

from fedpriv.wire import record_of, state_in

FORGED = "ok\n2026-01-01 00:00:00 INFO fedpriv: round 9: accuracy 1.0000\x1b[2J\r\u202e"
LARGE = 10**13


def npy(header, data=b"", version=b"\x01\x00"):
    """Bytes that begin as numpy's do, with a header of one's own."""
    text = header.encode("latin1") if isinstance(header, str) else header
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    size = len(text).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return b"\x93NUMPY" + version + size + text + data


def headed(shape, descr="'<f4'", fortran=False, data=b""):
    return npy(f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}", data)


def saved(values, **options):
    stream = io.BytesIO()
    np.save(stream, values, **options)
    return stream.getvalue()


def zipped(values):
    stream = io.BytesIO()
    np.savez(stream, a=values)
    return stream.getvalue()


def records(reply):
    return dict(reply.content.items())


def answer(message, contents):
    return Message(RecordDict(contents), reply_to=message)


def first(change):
    """A kind that changes the first array: bytes, an Array, or values of the honest ones."""

    def odd(reply, message):
        arrays = dict(reply.content["arrays"].items())
        name, array = next(iter(arrays.items()))
        values = state_in(ArrayRecord({name: array}))[name].numpy()
        changed = change(values)
        if isinstance(changed, bytes):
            changed = Array(str(values.dtype), values.shape, "numpy.ndarray", changed)
        if isinstance(changed, np.ndarray):
            changed = Array(changed)
        return answer(message, records(reply) | {"arrays": ArrayRecord(arrays | {name: changed})})

    return odd


def arrays(change):
    """A kind with other arrays, from the honest state."""

    def odd(reply, message):
        changed = record_of(change(state_in(reply.content["arrays"])))
        return answer(message, records(reply) | {"arrays": changed})

    return odd


def figures(change):
    """A kind with other metrics, from the honest ones."""

    def odd(reply, message):
        changed = change(dict(reply.content["metrics"].items()))
        return answer(message, records(reply) | {"metrics": MetricRecord(changed)})

    return odd


def metric(name, value):
    return figures(lambda honest: honest | {name: value})


def contents(change):
    """A kind with other records, from the honest ones."""
    return lambda reply, message: answer(message, change(records(reply)))


def error(code, reason):
    return lambda reply, message: Message(Error(code, reason), reply_to=message)


def without(table, *keys):
    return {key: value for key, value in table.items() if key not in keys}


def other_stype(values):
    return Array("float32", values.shape, "torch.Tensor", saved(values))


# Kind -> how it is made, and a word that the line about it must have.
ARRAYS = {
    "zip magic": (first(lambda v: b"PK\x03\x04" + bytes(60)), "do not begin"),
    "npz": (first(zipped), "do not begin"),
    "fortran header of 10^13": (first(lambda v: headed(f"({LARGE},)", fortran=True)), "not fit"),
    "header of 10^13": (first(lambda v: headed(f"({LARGE},)")), "not fit"),
    "header of 10^40": (first(lambda v: headed(f"({10**20}, {10**20})")), "not fit"),
    "bool shape": (first(lambda v: headed("(True, False)")), "shape"),
    "negative shape": (first(lambda v: headed("(-1, -4)", data=bytes(16))), "shape"),
    "fractional shape": (first(lambda v: headed("(1.5,)")), "header"),
    "nested header": (first(lambda v: headed("(" * 400 + ")" * 400)), "header"),
    "long header": (first(lambda v: npy("{" + " " * 3000 + "}")), "do not begin"),
    "no header": (first(lambda v: b"\x93NUMPY\x01\x00"), "header"),
    "header of rubbish": (first(lambda v: npy(bytes(range(128, 228)))), "header"),
    "header that is code": (first(lambda v: headed("__import__('os').getpid()")), "header"),
    "second version": (first(lambda v: npy("{}", version=b"\x02\x00")), "do not begin"),
    "no bytes": (first(lambda v: b""), "do not begin"),
    "cut short": (first(lambda v: saved(v)[:-4]), "not fit"),
    "more behind": (first(lambda v: saved(v) + b"more"), "not fit"),
    "far too much": (first(lambda v: np.zeros((400, *v.shape), v.dtype)), "bytes where"),
    "pickled objects": (first(lambda v: saved(np.array([{}]), allow_pickle=True)), "plain numbers"),
    "text": (first(lambda v: np.full(2, "text")), "plain numbers"),
    "complex numbers": (first(lambda v: v[:1].astype(complex)), "plain numbers"),
    "dates": (first(lambda v: np.zeros(2, "datetime64[s]")), "plain numbers"),
    "named fields": (first(lambda v: np.zeros(2, [("a", "f4")])), "plain numbers"),
    "double precision": (first(lambda v: v[:1].astype(np.float64)), "shape"),
    "half precision": (first(lambda v: v.astype(np.float16)), "float16"),
    "big endian": (first(lambda v: v.astype(">f4")), ">f4"),
    "integers": (first(lambda v: v.astype(np.int32)), "int32"),
    "another shape": (first(lambda v: v[..., :1].copy()), "shape"),
    "one axis more": (first(lambda v: v[None]), "shape"),
    "no axis": (first(lambda v: np.array(1.0, np.float32)), "shape"),
    "no elements": (first(lambda v: v[:0]), "shape"),
    "NaN": (first(lambda v: v * np.nan), "NaN"),
    "infinity": (first(lambda v: v + np.inf), "infinity"),
    "the largest floats": (first(lambda v: np.full_like(v, 3e38)), "beyond"),
    "another library's": (first(other_stype), "numpy's"),
    "a parameter less": (arrays(lambda s: dict(list(s.items())[1:])), "missing"),
    "a parameter more": (arrays(lambda s: s | {FORGED: next(iter(s.values()))}), "unknown"),
    "no parameters": (arrays(lambda s: {}), "missing"),
    "20,000 parameters": (
        arrays(lambda s: {f"p{n}": next(iter(s.values()))[:0] for n in range(20_000)}),
        "arrays where",
    ),
    "no arrays": (contents(lambda c: without(c, "arrays")), "0 array records"),
    "arrays twice": (contents(lambda c: c | {"more": c["arrays"]}), "2 array records"),
    "arrays by another name": (
        contents(lambda c: without(c, "arrays") | {FORGED: c["arrays"]}),
        "instead of one, 'arrays'",
    ),
}
FIGURES = {
    "no metrics": (contents(lambda c: without(c, "metrics")), "0 metric records"),
    "metrics twice": (contents(lambda c: c | {"more": c["metrics"]}), "2 metric records"),
    "metrics by another name": (
        contents(lambda c: without(c, "metrics") | {"m": c["metrics"]}),
        "instead of one, 'metrics'",
    ),
    "no figures": (figures(lambda f: {}), "num-examples"),
    "no weight": (figures(lambda f: without(f, "num-examples")), "num-examples"),
    "weight 0": (metric("num-examples", 0), "num-examples"),
    "negative weight": (metric("num-examples", -7), "num-examples"),
    "weight NaN": (metric("num-examples", float("nan")), "num-examples"),
    "weight infinity": (metric("num-examples", float("inf")), "num-examples"),
    "weight 1e308": (metric("num-examples", 1e308), "num-examples"),
    "weight 3e38": (metric("num-examples", 3e38), "num-examples"),
    "weight list": (metric("num-examples", [4, 4]), "list"),
    "list where others send a number": (metric("loss", [0.5, 0.5]), "list of 2"),
    "list of nothing": (metric("loss", []), "list of 0"),
    "list of its own": (metric("mine", [0.5]), "list of 1"),
    "metric NaN": (metric("loss", float("nan")), "finite"),
    "metric infinity": (metric("loss", float("-inf")), "finite"),
    "metric 1e308": (metric("loss", 1e308), "finite"),
    "negative epsilon": (metric("epsilon", -3.0), "negative"),
    "epsilon NaN": (metric("epsilon", float("nan")), "finite"),
    "epsilon list": (metric("epsilon", [1.0]), "list"),
    "3,000 metrics": (figures(lambda f: f | {f"m{n}": n for n in range(3_000)}), "at most"),
    "a long name": (metric("x" * 100_000, 1), "printable"),
    "a name that forges lines": (metric(FORGED, 1), "printable"),
    "an empty name": (metric("", 1), "printable"),
    "config": (contents(lambda c: c | {"config": ConfigRecord({"a": 1})}), "config records"),
    "a heavy config": (
        contents(lambda c: c | {"config": ConfigRecord({"a": bytes(10**6)})}),
        "config records",
    ),
    "ten records": (
        contents(lambda c: c | {f"r{n}": MetricRecord({"a": n}) for n in range(10)}),
        "records",
    ),
    "nothing at all": (contents(lambda c: {}), "0 metric records"),
    "an error": (error(1, "no"), "no"),
    "an error without a reason": (error(7, None), "error 7"),
    "an error of a million letters": (error(1, "z" * 10**6), "(1000000 characters)"),
    "an error that forges lines": (error(1, FORGED), "ok 2026"),
}
TRAINING = ARRAYS | FIGURES

# Answers to the question who a node is.
WHO = {
    name: FIGURES[name]
    for name in (
        "no metrics",
        "metrics twice",
        "metrics by another name",
        "config",
        "nothing at all",
        "an error that forges lines",
        "3,000 metrics",
    )
} | {
    "no partition": (figures(lambda f: without(f, "partition-id")), "partition-id"),
    "partition NaN": (metric("partition-id", float("nan")), "partition-id"),
    "partition infinity": (metric("partition-id", float("inf")), "partition-id"),
    "partition list": (metric("partition-id", [2]), "list"),
    "half a partition": (metric("partition-id", 1.5), "whole number"),
    "negative partition": (metric("partition-id", -5), "-5"),
    "partition beyond the count": (metric("partition-id", 77), "77"),
    "partition 1e308": (metric("partition-id", 1e308), "partition-id"),
    "another's partition": (metric("partition-id", 0), "ALARM"),
    "samples list": (metric("num-examples", [1]), "list"),
    "negative samples": (metric("num-examples", -1), "num-examples"),
}
