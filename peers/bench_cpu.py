#!/usr/bin/env python3
"""rowfold beside oneDNN, numpy and the fastest copy of the same bytes, on this CPU.

usage: bench_cpu.py ROWFOLD [-o RECORD.json] [--rounds N]

For every case the tools run in turn, N rounds; a figure is the median over the rounds of each round's own median, with the least and the greatest.
rowfold tunes each case once (its own best mode) and is then timed with its plan pinned. The copy is measured by rowfold in the same process just after
the kernel: the fastest of memcpy and streaming-store copies. A peer that is not installed is one line, no failure.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CASES = [  # kernel, file, rows, n, oneDNN's name
    ("softmax", "softmax.row", 1024, 4096, "softmax"),
    ("softmax", "softmax.row", 64, 32768, "softmax"),
    ("softmax", "softmax.row", 128, 8193, "softmax"),
    ("softmax", "softmax.row", 8192, 4096, "softmax"),
    ("softmax", "softmax.row", 17, 257, "softmax"),
    ("rmsnorm", "rmsnorm.row", 1024, 4096, None),
    ("rmsnorm", "rmsnorm.row", 17, 257, None),
    ("layernorm", "layernorm.row", 1024, 4096, "layernorm"),
]


def rowfold(exe, case, threads, pin=None):
    kernel, file, rows, n, _ = case
    cmd = [exe, "tune", os.path.join(ROOT, "kernels", file), kernel, "--shape", f"rows={rows},n={n}", "--type", "f32", "--threads", str(threads),
           "--device", "host", "--json", "--quiet"]
    if pin:
        cmd += ["--pin", ",".join(pin.split())]
    out = subprocess.run(cmd, capture_output=True, text=True, check=False)
    if out.returncode:
        sys.exit(f"rowfold failed: {' '.join(cmd)}\n{out.stderr}")
    return json.loads(out.stdout)


def build_onednn(folder):
    exe = os.path.join(folder, "onednn")
    cc = subprocess.run(["cc", "-O2", os.path.join(ROOT, "peers", "onednn.c"), "-o", exe, "-ldnnl", "-lm"], capture_output=True, text=True, check=False)
    return exe if cc.returncode == 0 else None


def onednn(exe, case):
    env = dict(os.environ, OMP_NUM_THREADS="1", OMP_PROC_BIND="true")
    out = subprocess.run([exe], input=f"{case[4]} {case[2]} {case[3]}\n", capture_output=True, text=True, env=env, check=True)
    return json.loads(out.stdout)


def numpy_case(case):
    try:
        import numpy as np
    except ImportError:
        return None
    import time

    x = np.random.default_rng(1).standard_normal((case[2], case[3])).astype(np.float32)
    w = np.ones(case[3], np.float32)

    def softmax():
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def rmsnorm():
        return x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * w

    def layernorm():
        c = x - x.mean(1, keepdims=True)
        return c / np.sqrt((c * c).mean(1, keepdims=True) + 1e-5) * w + w

    f = {"softmax": softmax, "rmsnorm": rmsnorm, "layernorm": layernorm}[case[0]]
    f()
    ns = []
    for _ in range(5):
        t = time.perf_counter_ns()
        f()
        ns.append(time.perf_counter_ns() - t)
    return statistics.median(ns)


def spread(v):
    return f"{statistics.median(v):.2f} [{min(v):.2f}, {max(v):.2f}]"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("rowfold")
    ap.add_argument("-o", "--output")
    ap.add_argument("--rounds", type=int, default=5)
    a = ap.parse_args()
    record = {"format": "rowfold-cpu-bench-1", "rounds": a.rounds, "cases": []}
    with tempfile.TemporaryDirectory() as folder:
        dnnl = build_onednn(folder)
        if not dnnl:
            print("peer onednn: not built (libdnnl-dev is not installed)")
        if numpy_case(("softmax", "", 1, 1, None)) is None:
            print("peer numpy: not installed")
        print("one thread, f32; time as a multiple of the fastest copy of the same bytes: median over rounds [least, greatest]")
        print(f"{'case':24} {'rowfold us':>10}  {'rowfold / copy':24} {'oneDNN / copy':24} {'numpy / copy':>12}")
        for case in CASES:
            best = rowfold(a.rowfold, case, 1)
            plan = best["plan"]
            rounds = []
            for _ in range(a.rounds):
                r = rowfold(a.rowfold, case, 1, plan)
                p = onednn(dnnl, case) if dnnl and case[4] else None
                rounds.append({"rowfold_ns": r["time_s"] * 1e9, "copy_ns": r["copy_s"] * 1e9, "onednn": p, "numpy_ns": numpy_case(case)})
            record["cases"].append({"kernel": case[0], "rows": case[2], "n": case[3], "plan": plan, "rounds": rounds})
            copies = [r["copy_ns"] for r in rounds]
            mine = [r["rowfold_ns"] / r["copy_ns"] for r in rounds]
            theirs = [r["onednn"]["median_ns"] / r["copy_ns"] for r in rounds if r["onednn"]]
            np_ = [r["numpy_ns"] / r["copy_ns"] for r in rounds if r["numpy_ns"]]
            print(f"{case[0] + ' ' + str(case[2]) + 'x' + str(case[3]):24} {statistics.median(r['rowfold_ns'] for r in rounds) / 1e3:10.2f}  {spread(mine):24} "
                  f"{spread(theirs) if theirs else '-':24} {format(statistics.median(np_), '12.2f') if np_ else '           -'}", flush=True)
            record["cases"][-1]["copy_ns_median"] = statistics.median(copies)
    if a.output:
        with open(a.output, "w", encoding="ascii") as f:
            json.dump(record, f, sort_keys=True, separators=(",", ":"))
            f.write("\n")


if __name__ == "__main__":
    main()
