#!/usr/bin/env python3
"""Peer: numpy, and an example of how little an adapter is. Types narrower than f32 are none of numpy's."""
import rowpeer

try:
    import numpy as np

    VERSION = np.__version__
except ImportError as why:
    VERSION = why


def softmax(s, x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(s, x):
    c = x - x.max(-1, keepdims=True)
    return c - np.log(np.exp(c).sum(-1, keepdims=True))


def rmsnorm(s, x, w):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(s.get("eps", 1e-5))) * w


def layernorm(s, x, g, b):
    c = x - x.mean(-1, keepdims=True)
    return c / np.sqrt((c * c).mean(-1, keepdims=True) + np.float32(s.get("eps", 1e-5))) * g + b


def residual_layernorm(s, x, r):
    t = x + r
    c = t - t.mean(-1, keepdims=True)
    return c / np.sqrt((c * c).mean(-1, keepdims=True) + np.float32(1e-5))


OPS = {"softmax": softmax, "log_softmax": log_softmax, "rmsnorm": rmsnorm, "layernorm": layernorm, "residual_layernorm": residual_layernorm,
       "sum": lambda s, x: x.sum(-1), "argmax": lambda s, x: x.argmax(-1)}
TYPES = {"f32": "float32", "f64": "float64", "i64": "int64", "i32": "int32"}


class Eager(rowpeer.Runner):
    allocation = "fresh"  # numpy makes its results anew; they are kept so that no memory is used twice in turn

    def __init__(self, case):
        case.only(*TYPES)
        self.op = case.pick(OPS)
        if len(case.outputs) != 1:
            raise rowpeer.Missing("more than one output")
        self.case, self.buffers = case, rowpeer.Buffers(case)
        self.inputs = [[np.frombuffer(self.buffers.map[t.name], TYPES[t.type], t.bytes // rowpeer.BYTES[t.type], k * self.buffers.step[t.name]).reshape(t.shape)
                        for t in case.inputs] for k in range(case.sets)]
        self.results = [None] * case.sets

    def call(self, k):
        self.results[k] = self.op(self.case.scalars, *self.inputs[k])

    def output(self, name):
        return np.ascontiguousarray(self.results[0], TYPES[self.case.type(name)]).tobytes()


if __name__ == "__main__":
    rowpeer.serve("numpy", VERSION, {"eager": Eager})
