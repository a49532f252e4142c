#!/usr/bin/env python3
"""Every kernel of kernels/ on this CPU, each as a multiple of the speed of light of its own bytes.

usage: library_cpu.py ROWFOLD [--types f32,bf16] [--shapes 256x4096,1024x769] [--only WORD] [--worst N] [-o FILE]

The plan is the one that a stranger gets first: the cost policy's choice, nothing timed before (--effort estimate). One thread, resident. The speed of
light is measured in the same process: copies, reads and writes of as many bytes. Rows come worst first.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KERNEL = re.compile(r"^kernel (\w+) for ([\w, ]+) \((.*?)\) *\{", re.S | re.M)


def extents(axes, kernel, rows, n):
    """R rows of N elements in each kernel's own axes: groups of 128, images of 8 by 32 groups, tokens of 8 batches."""
    has = set(axes)
    if {"g", "k"} <= has and "rows" in has:
        return {"rows": rows, "g": max(n // 128, 1), "k": 128}
    if "h" in has:
        return {"rows": max(rows * n // 4096, 1), "h": 32, "d": 128, "c": 3}
    if "s" in has:
        if "g" in has:
            return {"batch": rows // 32, "g": 32, "c": 8, "s": n // 8}
        return {"batch": rows // 32, "c": 32, "s": n}
    one = {"rows": rows, "n": n, "batch": 8, "b": 8, "i": rows // 8, "k": 8}
    if kernel == "dequantize_sum":
        one["rows"] = rows // 8
    return one


def library(only):
    for name in sorted(os.listdir(os.path.join(ROOT, "kernels"))):
        with open(os.path.join(ROOT, "kernels", name), encoding="utf-8") as f:
            text = f.read()
        for kernel, rows, params in KERNEL.findall(text):
            axes = [a.strip() for a in rows.split(",")]
            for inner in re.findall(r"\[([^\]]*)\]", params):
                axes += [a.strip() for a in inner.split(",")]
            if not only or only in kernel or only in name:
                yield name, kernel, list(dict.fromkeys(axes)), "T[" in params


def measure(exe, lines, store):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        cmd = [exe, "bench", "--effort", "estimate", "--threads", "1", "--device", "host", "--figures", "device.batch.resident", "--samples", "5",
               "--sample-ms", "3", "--warmup-ms", "15", "--store", store, "--quiet", "-o", out.name]
        for line in lines:
            cmd += ["--case", line]
        p = subprocess.run(cmd, capture_output=True, text=True, check=False, cwd=ROOT)
        if p.returncode not in (0, 1):
            sys.exit(p.stderr)
        with open(out.name, encoding="utf-8") as f:
            return json.load(f)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("rowfold")
    ap.add_argument("--types", default="f32,bf16")
    ap.add_argument("--shapes", default="256x4096,1024x769")
    ap.add_argument("--only", default="")
    ap.add_argument("--worst", type=int, default=0, help="print only so many")
    ap.add_argument("-o", "--output")
    a = ap.parse_args()
    found, identity = [], ""
    with tempfile.TemporaryDirectory() as folder:
        for shape in a.shapes.split(","):
            rows, n = (int(v) for v in shape.split("x"))
            for ty in a.types.split(","):
                lines = []
                for name, kernel, axes, typed in library(a.only):
                    if typed or ty == "f32":
                        ext = extents(axes, kernel, rows, n)
                        lines.append(f"kernels/{name} {kernel} {','.join(f'{x}={ext[x]}' for x in axes if x in ext)} {ty}")
                record = measure(a.rowfold, lines, os.path.join(folder, "trials.db")) if lines else {"cases": []}
                identity = record.get("provenance", {}).get("device", {}).get("identity", identity)
                for case in record["cases"]:
                    m = case.get("measurement")
                    if not m or not m.get("figures"):
                        found.append((float("inf"), f"{case['kernel']:34} {shape:9} {ty:5} {case.get('failed')}"))
                        continue
                    ns, light = m["figures"][0]["median_ns"], m["speed_of_light_ns"]["resident"]
                    found.append((ns / light, f"{case['kernel']:34} {shape:9} {ty:5} {ns / 1e3:10.2f} {light / 1e3:9.2f} {ns / light:7.2f} "
                                  f"{m['setup']['compile_ns'] / 1e6:8.0f}"))
    found.sort(key=lambda f: -f[0])
    head = f"{'kernel':34} {'shape':9} {'type':5} {'us':>10} {'light us':>9} {'of light':>7} {'build ms':>9}"
    ratios = sorted(f[0] for f in found)
    text = "\n".join([head] + [f[1] for f in found[: a.worst or len(found)]])
    text += f"\n\n{len(found)} cases: median {ratios[len(ratios) // 2]:.2f}, 90 % below {ratios[len(ratios) * 9 // 10]:.2f}, worst {ratios[-1]:.2f}\n"
    print(text)
    if a.output:
        with open(a.output, "w", encoding="utf-8") as f:
            f.write(f"Every kernel of kernels/ on one thread, as a multiple of the speed of light of its own bytes (docs/measuring.md); plans by estimate, worst first.\n"
                    f"Command: python3 peers/library_cpu.py build/cli/rowfold -o results/cpu-library.txt\n{identity}\n\n{text}")


if __name__ == "__main__":
    main()
