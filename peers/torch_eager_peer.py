#!/usr/bin/env python3
"""Peer: PyTorch, eager; outputs are given where the operator has out=."""
import rowpeer
import torchrows

if __name__ == "__main__":
    rowpeer.serve("torch_eager", torchrows.VERSION, {"eager": torchrows.Rows})
