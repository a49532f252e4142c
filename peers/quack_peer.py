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

    return {"softmax": (lambda s, x: softmax(x), None), "rmsnorm": (lambda s, x, w: rmsnorm(x, w, eps=s.get("eps", 1e-5)), None)}


def make(case):
    if not case.device.startswith("cuda"):
        raise rowpeer.Missing("it runs on CUDA devices alone")
    return torchrows.Rows(case, table=table())


if __name__ == "__main__":
    rowpeer.serve("quack", VERSION, {"best": make})
