#!/usr/bin/env python3
"""Errors of rowfold's and PyTorch's f32 results against references of more digits, on the same inputs.

usage: accuracy.py ROWFOLD [--device host] [--count N] [--seed S]

Maps: worst and mean error in units in the last place (ulp) of the true value, over N seeded inputs spread over all exponents in the function's
interesting range; reference numpy's long double. Reductions: error relative to the reference, which is math.fsum where it is a sum. PyTorch runs in
eager mode on the CPU; where it is missing its columns are blank.
"""
import argparse
import math
import os
import subprocess
import sys
import tempfile

import numpy as np

LD = np.longdouble


def erf(x):
    return np.array([math.erf(float(v)) for v in x], LD)


# name, expression of the kernel, PyTorch's function, reference, how inputs are drawn
MAPS = [
    ("exp", "exp(x)", "exp", np.exp, ("uniform", -87, 88)),
    ("exp2", "exp2(x)", "exp2", np.exp2, ("uniform", -126, 127)),
    ("log", "log(x)", "log", np.log, ("positive",)),
    ("log2", "log2(x)", "log2", np.log2, ("positive",)),
    ("tanh", "tanh(x)", "tanh", np.tanh, ("spread", -20, 4)),
    ("erf", "erf(x)", "erf", erf, ("spread", -20, 2)),
    ("sigmoid", "sigmoid(x)", "sigmoid", lambda x: 1 / (1 + np.exp(-x)), ("spread", -20, 6)),
    ("rsqrt", "rsqrt(x)", "rsqrt", lambda x: 1 / np.sqrt(x), ("positive",)),
    ("sqrt", "sqrt(x)", "sqrt", np.sqrt, ("positive",)),
    ("division by 3", "x / 3", None, lambda x: x / LD(3), ("spread", -60, 60)),
]

# name, statement, PyTorch's expression of tensor x, reference of one long-double row, rows, n, how inputs are drawn
ROWS = [
    ("sum", "s = sum(x)", "x.sum(-1)", lambda r: LD(math.fsum(map(float, r))), 2, 1000000, "uniform"),
    ("sum of both signs", "s = sum(x)", "x.sum(-1)", lambda r: LD(math.fsum(map(float, r))), 2, 1000000, "normal"),
    ("mean", "s = mean(x)", "x.mean(-1)", lambda r: LD(math.fsum(map(float, r))) / len(r), 2, 1000000, "uniform"),
    ("var, mean 1e4 deviations", "s = var(x)", "x.var(-1, unbiased=False)", lambda r: np.mean((r - np.mean(r)) ** 2), 8, 65536, "far"),
    ("norm2", "s = norm2(x)", "torch.linalg.vector_norm(x, dim=-1)", lambda r: np.sqrt(np.sum(r * r)), 8, 65536, "normal"),
    ("logsumexp", "s = logsumexp(x)", "x.logsumexp(-1)", lambda r: np.log(np.sum(np.exp(r - r.max()))) + r.max(), 8, 65536, "wide"),
    ("largest of softmax, range 1e4", "e = exp(x - max(x))\n s = max(e) / sum(e)", "x.softmax(-1).amax(-1)",
     lambda r: 1 / np.sum(np.exp(r - r.max())), 8, 4096, "wide"),
]


def draw(how, n, rng):
    if how[0] == "uniform":
        return rng.uniform(how[1], how[2], n).astype(np.float32)
    low, high = (-126, 127) if how[0] == "positive" else how[1:]
    x = np.ldexp(rng.uniform(1, 2, n), rng.integers(low, high, n)).astype(np.float32)
    return x if how[0] == "positive" else x * rng.choice(np.array([-1, 1], np.float32), n)


def draw_rows(how, shape, rng):
    x = {"uniform": lambda: rng.uniform(0, 1, shape), "normal": lambda: rng.standard_normal(shape),
         "far": lambda: 1e4 + rng.standard_normal(shape), "wide": lambda: rng.uniform(-5e3, 5e3, shape)}[how]()
    return x.astype(np.float32)


def rowfold(exe, device, text, x, out, folder):
    source, data, result = (os.path.join(folder, name) for name in ("k.row", "x.npy", "out.npy"))
    with open(source, "w", encoding="utf-8") as f:
        f.write(text)
    np.save(data, x)
    cmd = [exe, "run", source, "--device", device, "--in", f"x={data}", "--out", f"{out}={result}", "--quiet", "--no-store"]
    done = subprocess.run(cmd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(cmd)}\n{done.stderr}")
    return np.load(result)


def ulps(got, want):
    last = np.ldexp(LD(1), np.maximum(np.frexp(np.abs(want))[1] - 24, -149))
    e = np.abs(got.astype(LD) - want) / last
    ok = np.isfinite(want) & (np.abs(want) <= LD(3.4028234e38))
    return float(e[ok].max()), float(e[ok].mean())


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("rowfold")
    p.add_argument("--device", default="host")
    p.add_argument("--count", type=int, default=1 << 18)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    try:
        import torch
    except ImportError:
        torch = None
    rng = np.random.default_rng(a.seed)
    print(f"rowfold on {a.device}, PyTorch {torch.__version__ if torch else '(not installed)'} on the CPU; f32; seed {a.seed}, {a.count} inputs a map")
    print(f"{'map':32}{'rowfold: worst ulp, mean':>28}{'PyTorch: worst ulp, mean':>28}")
    with tempfile.TemporaryDirectory() as folder:
        for name, text, peer, reference, how in MAPS:
            x = draw(how, a.count, rng)
            kernel = f"kernel k for rows (x: in f32[rows, n], y: out f32[rows, n]) {{\n y = {text}\n}}\n"
            want = reference(x.astype(LD))
            got = rowfold(a.rowfold, a.device, kernel, x.reshape(64, -1), "y", folder).reshape(-1)
            worst, mean = ulps(got, want)
            other = ""
            if torch:
                t = torch.from_numpy(x)
                w, m = ulps((getattr(torch, peer)(t) if peer else t / 3).numpy(), want)
                other = f"{w:16.3f}, {m:10.4f}"
            print(f"{name:32}{worst:16.3f}, {mean:10.4f}{other}")
        print(f"{'reduction':32}{'rowfold: relative error':>28}{'PyTorch: relative error':>28}")
        for name, text, peer, reference, rows, n, how in ROWS:
            x = draw_rows(how, (rows, n), rng)
            kernel = f"kernel k for rows (x: in f32[rows, n], s: out f32[rows]) {{\n {text}\n}}\n"
            want = np.array([reference(r.astype(LD)) for r in x])
            got = rowfold(a.rowfold, a.device, kernel, x, "s", folder)
            relative = lambda y: float(np.max(np.abs(y.astype(LD) - want) / np.abs(want)))
            other = ""
            if torch:
                other = f"{relative(eval(peer, {'torch': torch, 'x': torch.from_numpy(x)}).numpy()):28.2e}"
            print(f"{name:32}{relative(got):28.2e}{other}")


if __name__ == "__main__":
    main()
