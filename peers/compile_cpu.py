#!/usr/bin/env python3
"""What the C compiler takes for every kernel of kernels/, by the plan that estimate puts first: wall time from its start to its end, the least of some.

usage: compile_cpu.py ROWFOLD [--times N] [--only WORD]

Nothing is cached. A figure of a busy machine says nothing: the first line is what an empty file takes."""
import argparse
import os
import shlex
import statistics
import subprocess
import tempfile
import time

import library_cpu

SHAPES = ((256, 4096, "f32"), (1024, 769, "bf16"), (1024, 769, "f16"))


def least(times, once):
    taken = [ms for ms in (once() for _ in range(times)) if ms is not None]
    return min(taken) if taken else None


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("rowfold")
    ap.add_argument("--times", type=int, default=6)
    ap.add_argument("--only", default="")
    a = ap.parse_args()
    cc = os.environ.get("ROWFOLD_CC", "cc")
    with tempfile.TemporaryDirectory() as tmp:
        wrapper, log, empty = (os.path.join(tmp, name) for name in ("cc", "log", "empty.c"))
        with open(wrapper, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/bash\nTIMEFORMAT=%R\n{{ time {shlex.quote(cc)} \"$@\" 2>{tmp}/said; }} 2>>{log}\nrc=$?\ncat {tmp}/said >&2\nexit $rc\n")
        os.chmod(wrapper, 0o700)
        open(empty, "w", encoding="utf-8").close()

        def nothing():
            start = time.perf_counter()
            subprocess.run([cc, "-O1", "-shared", "-nostdlib", empty, "-o", empty + ".so"], check=True)
            return 1e3 * (time.perf_counter() - start)

        def compiled(name, kernel, shape, ty):
            with tempfile.TemporaryDirectory() as cache:
                open(log, "w", encoding="utf-8").close()
                env = dict(os.environ, ROWFOLD_CC=wrapper, ROWFOLD_CACHE=cache)
                cmd = [a.rowfold, "plan", os.path.join(library_cpu.ROOT, "kernels", name), kernel, "--shape", shape, "--type", ty, "--device", "host",
                       "--threads", "1", "--limit", "1", "-q"]
                subprocess.run(cmd, env=env, capture_output=True, check=False)
                with open(log, encoding="utf-8") as f:
                    taken = [float(line) for line in f]
            return 1e3 * max(taken) if taken else None  # the other start asks the compiler for its version

        print(f"an empty file {least(a.times, nothing):.0f} ms")
        for rows, n, ty in SHAPES:
            found = []
            for name, kernel, axes, typed in library_cpu.library(a.only):
                if typed or ty == "f32":
                    ext = library_cpu.extents(axes, kernel, rows, n)
                    shape = ",".join(f"{x}={ext[x]}" for x in axes if x in ext)
                    ms = least(a.times, lambda: compiled(name, kernel, shape, ty))  # noqa: B023
                    found += [(ms, kernel)] if ms is not None else []
            if found:
                found.sort()
                ms = [f[0] for f in found]
                print(f"{ty} {rows}x{n}: {len(ms)} kernels, median {statistics.median(ms):.0f} ms, nine of ten below {ms[len(ms) * 9 // 10]:.0f}; the longest "
                      + ", ".join(f"{k} {m:.0f}" for m, k in found[:-6:-1]), flush=True)


if __name__ == "__main__":
    main()
