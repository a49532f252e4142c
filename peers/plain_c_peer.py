#!/usr/bin/env python3
"""Peer: plain C loops as anyone would write them, built by the C compiler at -O3 for this processor. No fast-math: the compiler may not reorder
additions, which is what such loops cost. f32."""
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile

import rowpeer

HEAD = "#include <math.h>\n#include <stddef.h>\n"
ROW = "void row(const float *const *a, float *const *o, long n) {\n"
BODIES = {  # a: inputs in order, those without the row axis whole; o: outputs
    "softmax": "const float *x = a[0]; float *y = o[0], m = x[0], s = 0;"
    "for (long i = 1; i < n; i++) m = x[i] > m ? x[i] : m;"
    "for (long i = 0; i < n; i++) { y[i] = expf(x[i] - m); s += y[i]; }"
    "for (long i = 0; i < n; i++) y[i] /= s;",
    "log_softmax": "const float *x = a[0]; float *y = o[0], m = x[0], s = 0;"
    "for (long i = 1; i < n; i++) m = x[i] > m ? x[i] : m;"
    "for (long i = 0; i < n; i++) s += expf(x[i] - m);"
    "s = logf(s); for (long i = 0; i < n; i++) y[i] = x[i] - m - s;",
    "rmsnorm": "const float *x = a[0], *w = a[1]; float *y = o[0], s = 0;"
    "for (long i = 0; i < n; i++) s += x[i] * x[i];"
    "s = 1 / sqrtf(s / n + EPS); for (long i = 0; i < n; i++) y[i] = x[i] * s * w[i];",
    "layernorm": "const float *x = a[0], *g = a[1], *b = a[2]; float *y = o[0], m = 0, v = 0;"
    "for (long i = 0; i < n; i++) m += x[i];"
    "m /= n; for (long i = 0; i < n; i++) v += (x[i] - m) * (x[i] - m);"
    "v = 1 / sqrtf(v / n + EPS); for (long i = 0; i < n; i++) y[i] = (x[i] - m) * v * g[i] + b[i];",
    "sum": "const float *x = a[0]; float s = 0; for (long i = 0; i < n; i++) s += x[i]; o[0][0] = s;",
}
CALL = """
void calls(const long *base_in, const long *step_in, const long *row_in, int nin, const long *base_out, const long *step_out,
           const long *row_out, int nout, long rows, long n, long first, long calls_, long sets) {
    const float *a[8]; float *o[8];
    for (long c = 0; c < calls_; c++) {
        long k = (first + c) % sets;
        for (long r = 0; r < rows; r++) {
            for (int i = 0; i < nin; i++) a[i] = (const float *)(base_in[i] + k * step_in[i]) + r * row_in[i];
            for (int i = 0; i < nout; i++) o[i] = (float *)(base_out[i] + k * step_out[i]) + r * row_out[i];
            row(a, o, n);
        }
    }
}
"""
FLAGS = ["-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC"]


class Loops(rowpeer.Runner):
    clock = "Python's monotonic clock around a loop of calls in C"

    def __init__(self, case):
        case.only("f32")
        body = case.pick(BODIES)
        cc = os.environ.get("CC") or shutil.which("cc")
        if not cc:
            raise rowpeer.Missing("there is no C compiler")
        with tempfile.TemporaryDirectory() as folder:
            so = os.path.join(folder, "loops.so")
            eps = case.scalars.get("eps", 1e-5)
            source = f"{HEAD}#define EPS {eps!r}f\nstatic {ROW}{body}\n}}\n{CALL}"
            made = subprocess.run([cc, *FLAGS, "-x", "c", "-", "-o", so, "-lm"], input=source, text=True, capture_output=True, check=False)
            if made.returncode:
                raise rowpeer.Missing(f"{cc}: {made.stderr[:200]}")
            self.library = ctypes.CDLL(so)
        self.configuration = " ".join([cc, *FLAGS])
        self.case, self.buffers = case, rowpeer.Buffers(case)
        rows_axis = case.request["row_axes"]
        if len(rows_axis) != 1:
            raise rowpeer.Missing("more than one row axis")
        axes = {p["name"]: p["axes"] for p in case.request["params"]}
        self.rows = case.request["shape"][rows_axis[0]]
        self.n = next(t.shape[-1] for t in case.inputs if rows_axis[0] in axes[t.name])

        def table(tensors):
            row = [(t.bytes // 4 // self.rows if rows_axis[0] in axes[t.name] else 0) for t in tensors]
            array = ctypes.c_long * len(tensors)
            return [array(*(self.buffers.address(t.name) for t in tensors)), array(*(self.buffers.step[t.name] for t in tensors)), array(*row), len(tensors)]

        self.arguments = table(case.inputs) + table(case.outputs)

    def batch(self, first, calls, sets):
        c_long = ctypes.c_long
        self.library.calls(*self.arguments, c_long(self.rows), c_long(self.n), c_long(first), c_long(calls), c_long(sets))

    def call(self, k):
        self.batch(k, 1, self.case.sets)

    def output(self, name):
        return self.buffers.bytes(next(t for t in self.case.outputs if t.name == name))


def version():
    cc = os.environ.get("CC") or shutil.which("cc")
    if not cc:
        return FileNotFoundError("a C compiler")
    return subprocess.run([cc, "--version"], text=True, capture_output=True, check=False).stdout.split("\n")[0]


if __name__ == "__main__":
    sys.exit(rowpeer.serve("plain_c", version(), {"O3": Loops}))
