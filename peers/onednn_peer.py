#!/usr/bin/env python3
"""Peer: oneDNN 2.x through its C API (libdnnl-dev), the primitive that it chooses, f32, results into memory that is given."""
import ctypes
import mmap
import os
import shutil
import subprocess
import tempfile

import rowpeer

HERE = os.path.dirname(os.path.abspath(__file__))
OPS = {"softmax": 0, "log_softmax": 0, "layernorm": 2}  # kernel -> how many weights


def load():
    cc = os.environ.get("CC") or shutil.which("cc")
    if not cc:
        return None, FileNotFoundError("a C compiler")
    with tempfile.TemporaryDirectory() as folder:
        so = os.path.join(folder, "rows.so")
        made = subprocess.run([cc, "-O2", "-shared", "-fPIC", os.path.join(HERE, "onednn_rows.c"), "-o", so, "-ldnnl"], text=True, capture_output=True, check=False)
        if made.returncode:
            return None, FileNotFoundError("oneDNN 2.x with its headers: " + (made.stderr.split("\n") + [""])[0][:200])
        try:
            library = ctypes.CDLL(so)
        except OSError as why:
            return None, why
    v = (ctypes.c_int * 3)()
    library.onednn_version(v)
    return library, "%d.%d.%d" % tuple(v)


class Primitive(rowpeer.Runner):
    clock = "Python's monotonic clock around a loop of calls in C, with one wait for the stream"

    def __init__(self, case):
        case.only("f32")
        weights = case.pick(OPS)
        if case.device != "host":
            raise rowpeer.Missing("this adapter runs on the CPU")
        self.case, self.buffers = case, rowpeer.Buffers(case)
        x, y = case.inputs[0], case.outputs[0]
        try:
            openmp = ctypes.CDLL("libgomp.so.1")  # that oneDNN is built with on Debian
        except OSError as why:
            raise rowpeer.Missing(f"oneDNN's threads cannot be told: {why}") from why
        if case.threads:
            openmp.omp_set_num_threads(case.threads)
        how = ctypes.c_char_p()
        bad = LIBRARY.onednn_open(case.kernel.encode(), ctypes.c_long(x.bytes // 4 // x.shape[-1]), ctypes.c_long(x.shape[-1]),
                                  ctypes.c_float(case.scalars.get("eps", 1e-5)), ctypes.byref(how))
        if bad:
            raise rowpeer.Missing(f"oneDNN gives status {bad}")
        self.configuration = f"{how.value.decode()}, {openmp.omp_get_max_threads()} threads"
        self.wstep = (2 * x.shape[-1] * 4 + 255) & ~255
        self.weights = mmap.mmap(-1, self.wstep * case.sets)
        if weights:
            both = case.inputs[1].read() + case.inputs[2].read()
            for k in range(case.sets):
                self.weights[k * self.wstep : k * self.wstep + len(both)] = both
        place = ctypes.addressof(ctypes.c_char.from_buffer(self.weights))
        self.place = [ctypes.c_void_p(a) for a in (self.buffers.address(x.name), self.buffers.address(y.name), place)]
        self.steps = [ctypes.c_long(self.buffers.step[x.name]), ctypes.c_long(self.wstep)]

    def batch(self, first, calls, sets):
        bad = LIBRARY.onednn_calls(*self.place, *self.steps, ctypes.c_long(first), ctypes.c_long(calls), ctypes.c_long(sets))
        if bad:
            raise RuntimeError(f"oneDNN gives status {bad}")

    def call(self, k):
        self.batch(k, 1, self.case.sets)

    def output(self, name):
        return self.buffers.bytes(self.case.outputs[0])


if __name__ == "__main__":
    LIBRARY, VERSION = load()
    rowpeer.serve("onednn", VERSION, {"inference": Primitive})
