#!/usr/bin/env python3
"""Peer: QuACK: CuTe-DSL kernels, CUDA alone."""
import importlib.metadata

import rowpeer
import torchrows

try:
    import quack  # noqa: F401

    VERSION = torchrows.VERSION if isinstance(torchrows.VERSION, Exception) else importlib.metadata.version("quack-kernels") + ", torch " + torchrows.VERSION
except ImportError as why:
    VERSION = why


def table():
    from quack import rmsnorm, softmax
    from quack.cross_entropy import cross_entropy_fwd
    from quack.rmsnorm import layernorm_fwd

    return {
        "softmax": (lambda s, x: softmax(x), None),
        "rmsnorm": (lambda s, x, w: rmsnorm(x, w, eps=s.get("eps", 1e-5)), None),
        "layernorm": (lambda s, x, g, b: layernorm_fwd(x, g.float(), b.float(), eps=s.get("eps", 1e-5)), None),  # f32 as it asks
        "cross_entropy": (lambda s, x, t: cross_entropy_fwd(x, t), None),
    }


def make(case):
    if not case.device.startswith("cuda"):
        raise rowpeer.Missing("it runs on CUDA devices alone")
    return torchrows.Rows(case, table=table())


if __name__ == "__main__":
    rowpeer.serve("quack", VERSION, {"best": make})
