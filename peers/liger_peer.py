#!/usr/bin/env python3
"""Peer: Liger-Kernel: Triton kernels for training, CUDA alone."""
import importlib.metadata

import rowpeer
import torchrows

try:
    import liger_kernel  # noqa: F401

    VERSION = torchrows.VERSION if isinstance(torchrows.VERSION, Exception) else importlib.metadata.version("liger-kernel") + ", torch " + torchrows.VERSION
except ImportError as why:
    VERSION = why


def table():
    from liger_kernel.ops.layer_norm import LigerLayerNormFunction
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction
    from liger_kernel.ops.softmax import LigerSoftmaxFunction

    return {
        "softmax": (lambda s, x: LigerSoftmaxFunction.apply(x), None),
        "rmsnorm": (lambda s, x, w: LigerRMSNormFunction.apply(x, w, s.get("eps", 1e-5), 0.0, "llama", False), None),
        "layernorm": (lambda s, x, g, b: LigerLayerNormFunction.apply(x, g, b, s.get("eps", 1e-5)), None),
    }


def make(case):
    if not case.device.startswith("cuda"):
        raise rowpeer.Missing("it runs on CUDA devices alone")
    return torchrows.Rows(case, table=table())


if __name__ == "__main__":
    rowpeer.serve("liger", VERSION, {"best": make})
