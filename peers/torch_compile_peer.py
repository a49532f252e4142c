#!/usr/bin/env python3
"""Peer: torch.compile, in its default mode and in max-autotune, outputs fresh."""
import rowpeer
import torchrows


def compiled(mode):
    def make(case):
        import torch

        return torchrows.Rows(case, wrap=lambda f: torch.compile(f, mode=mode, fullgraph=True, dynamic=False))

    return make


if __name__ == "__main__":
    rowpeer.serve("torch_compile", torchrows.VERSION, {"default": compiled(None), "max-autotune": compiled("max-autotune-no-cudagraphs")})
