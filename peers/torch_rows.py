#!/usr/bin/env python3
"""Peers: PyTorch eager and torch.compile (default, max-autotune), Liger and QuACK where they are installed, on row operators, on one NVIDIA GPU. One JSON
line a case and mode.

usage: torch_rows.py [CASE ...]     a case is OP:TYPE:ROWSxN[:x.rows=STRIDE][:resident], STRIDE elements from row to row of x (default N)

As rowfold is timed: one CUDA graph of 200 calls (20 where a call takes over 200 us) between two events, median of 9 replays, buffers rotating over at
least 200 MB, or the same ("resident"). Outputs: `out=` where the operator has it; else the graph's own pool, with as many outputs kept alive as there are
inputs, so that they rotate too. Every mode's first result is compared with an FP64 evaluation of the first rows."""
import json
import statistics
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print(json.dumps({"peer": "torch", "missing": "PyTorch is not installed"}))
    sys.exit(0)

try:
    from liger_kernel.ops.fused_add_rms_norm import fused_add_rms_norm_forward
    from liger_kernel.ops.layer_norm import layer_norm_forward
    from liger_kernel.ops.rms_norm import rms_norm_forward
    from liger_kernel.ops.softmax import _softmax_forward
    from importlib.metadata import version
    LIGER_VERSION = version("liger_kernel")
    LIGER = {"softmax": lambda x, w, b: _softmax_forward(x)[0],
             "rmsnorm": lambda x, w, b: rms_norm_forward(x, w, 1e-6, 0.0, "llama", None)[0],
             "layernorm": lambda x, w, b: layer_norm_forward(x, w, b, 1e-5)[0],
             "residual_rmsnorm": lambda x, w, b: fused_add_rms_norm_forward(*x, w, 1e-6, 0.0, "llama")[1::-1]}
except ImportError:
    LIGER = {}

try:
    from importlib.metadata import version
    from quack.cross_entropy import cross_entropy_fwd
    from quack.rmsnorm import layernorm_fwd, rmsnorm_fwd
    from quack.softmax import softmax_fwd
    QUACK_VERSION = version("quack-kernels")
    QUACK = {"softmax": lambda x, w, b, t: softmax_fwd(x), "rmsnorm": lambda x, w, b, t: rmsnorm_fwd(x, w, eps=1e-6)[0],
             "layernorm": lambda x, w, b, t: layernorm_fwd(x, *b, 1e-5),
             "residual_rmsnorm": lambda x, w, b, t: rmsnorm_fwd(x[0], w, residual=x[1], eps=1e-6)[1::-1],
             "cross_entropy": lambda x, w, b, t: cross_entropy_fwd(x, t)}
except ImportError:
    QUACK = {}

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
DEFAULT = ["softmax:bf16:32768x4096", "rmsnorm:bf16:32768x4096", "layernorm:bf16:32768x4096", "softmax:bf16:2048x131072", "rmsnorm:bf16:2048x131072",
           "layernorm:bf16:2048x131072", "softmax:bf16:4096x32768", "layernorm:bf16:4096x32768", "layernorm:f32:65536x769", "rmsnorm:bf16:1x4096:resident",
           "softmax:f32:1x50257:resident", "layernorm:bf16:16384x8192", "softmax:bf16:16384x8192", "residual_rmsnorm:bf16:8192x8192",
           "softmax:f32:4096x131072", "softmax:f32:1024x4096:resident", "rmsnorm:f32:1024x4096:resident", "layernorm:f32:1024x4096:resident",
           "log_softmax_f32:bf16:32x128256", "rmsnorm:bf16:64x4096:resident", "argmax:bf16:8x151936:resident", "column_sum:f32:16384x4096",
           "sum:bf16:16384x8192", "softmax:bf16:262144x256", "rmsnorm:bf16:262144x128", "rmsnorm:bf16:262144x128:x.rows=384",
           "softmax:bf16:65536x1024", "rmsnorm:bf16:8192x5120", "rmsnorm:bf16:4096x32768", "layernorm:f32:128x8193", "cross_entropy:bf16:8192x128256"]


def operator(op, n, w, b, t):
    if op == "softmax":
        return lambda x: torch.softmax(x, -1)
    if op == "rmsnorm":
        return lambda x: F.rms_norm(x, (n,), w, 1e-6)
    if op == "layernorm":
        return lambda x: F.layer_norm(x, (n,), w, b, 1e-5)
    if op == "residual_rmsnorm":
        def f(x):
            s = x[0] + x[1]
            return s, F.rms_norm(s, (n,), w, 1e-6)
        return f
    if op == "column_sum":
        return lambda x: x.sum(0)
    if op == "sum":
        return lambda x: x.sum(-1, dtype=torch.float32)
    if op == "argmax":
        return lambda x: x.argmax(-1)
    if op == "log_softmax_f32":
        return lambda x: torch.log_softmax(x, -1, dtype=torch.float32)
    if op == "cross_entropy":
        return lambda x: F.cross_entropy(x.float(), t[: len(x)], reduction="none")
    raise SystemExit(f"no operator {op}")


def tensors(y):
    return y if isinstance(y, tuple) else (y,)


def time_us(f, inputs):
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(3):
            f(inputs[i % len(inputs)])
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        f(inputs[0])
        end.record()
        end.synchronize()
        calls = 20 if start.elapsed_time(end) > 0.2 else 200
        graph, kept = torch.cuda.CUDAGraph(), []
        with torch.cuda.graph(graph, stream=stream):
            for i in range(calls):
                kept.append(f(inputs[i % len(inputs)]))
                if len(kept) > len(inputs):
                    kept.pop(0)
        for _ in range(2):
            graph.replay()
        us = []
        for _ in range(9):
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            us.append(start.elapsed_time(end) * 1e3 / calls)
    return statistics.median(us), min(us), max(us), calls


def main():
    for case in sys.argv[1:] or DEFAULT:
        op, ty, shape, *rest = case.split(":")
        rows, n = map(int, shape.split("x"))
        dtype, parts = TYPES[ty], 2 if op == "residual_rmsnorm" else 1
        stride = next((int(r.removeprefix("x.rows=")) for r in rest if r.startswith("x.rows=")), n)
        bytes_ = rows * n * torch.tensor([], dtype=dtype).element_size() * 2 * parts
        sets = 1 if "resident" in rest else max(1, min(64, -(-200_000_000 // bytes_)))
        torch.manual_seed(1)
        make = lambda: torch.randn(rows, stride, device="cuda").to(dtype)[:, :n]  # noqa: E731
        inputs = [make() if parts == 1 else (make(), make()) for _ in range(sets)]
        w, b = torch.randn(n, device="cuda").to(dtype), torch.randn(n, device="cuda").to(dtype)
        t = torch.randint(n, (rows,), device="cuda")
        wide = (w.float(), b.float())  # QuACK's LayerNorm takes no others
        eager = operator(op, n, w, b, t)
        want = [t.double() for t in tensors(eager(inputs[0] if op == "column_sum" else (inputs[0][:8] if parts == 1 else tuple(t[:8] for t in inputs[0]))))]
        for mode in ["eager", "compile", "max-autotune"] + ["liger"] * (op in LIGER) + ["quack"] * (op in QUACK):
            peer, made = {"liger": ("liger", LIGER and LIGER_VERSION), "quack": ("quack", QUACK and QUACK_VERSION)}.get(mode, ("torch", torch.__version__))
            row = {"peer": peer, "version": made, "case": case, "mode": mode}
            try:
                torch._dynamo.reset()
                f = eager
                if mode == "liger":
                    f = lambda x: LIGER[op](x, w, b)  # noqa: E731, B023
                elif mode == "quack":
                    f = lambda x: QUACK[op](x, w, wide, t)  # noqa: E731, B023
                elif mode != "eager":
                    f = torch.compile(eager, mode="default" if mode == "compile" else "max-autotune-no-cudagraphs", fullgraph=True)
                got = tensors(f(inputs[0]))
                err = max((g[: t.shape[0]].double() - t).abs().max().item() for g, t in zip(got, want))
                us, least, most, calls = time_us(f, inputs)
                row.update(us=round(us, 3), min_us=round(least, 3), max_us=round(most, 3), calls=calls, largest_difference_from_eager=err)
            except Exception as e:  # a peer that fails is a line, not an end
                row["failed"] = str(e).splitlines()[0][:200]
            print(json.dumps(row), flush=True)
        del inputs


if __name__ == "__main__":
    main()
