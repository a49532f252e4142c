#!/usr/bin/env python3
"""Peer: FlashInfer: kernels of inference, CUDA alone."""
import importlib.metadata

import rowpeer
import torchrows

try:
    import flashinfer  # noqa: F401

    VERSION = torchrows.VERSION if isinstance(torchrows.VERSION, Exception) else importlib.metadata.version("flashinfer-python") + ", torch " + torchrows.VERSION
except ImportError as why:
    VERSION = why


def table():
    import flashinfer

    return {
        "rmsnorm": (lambda s, x, w: flashinfer.norm.rmsnorm(x, w, s.get("eps", 1e-5)), lambda s, o, x, w: flashinfer.norm.rmsnorm(x, w, s.get("eps", 1e-5), out=o)),
        "softmax": (lambda s, x: flashinfer.sampling.softmax(x), None),
    }


def make(case):
    if not case.device.startswith("cuda"):
        raise rowpeer.Missing("it runs on CUDA devices alone")
    return torchrows.Rows(case, table=table())


if __name__ == "__main__":
    rowpeer.serve("flashinfer", VERSION, {"best": make})
