"""What adapters share: the request, the tensors, the timing and the answer of the protocol that peers/README.md describes.

An adapter gives `serve` its name and version and, for each of its modes, a function that turns a Case into a Runner."""
import ctypes
import json
import mmap
import os
import sys
import time

BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u64": 8, "u32": 4, "u16": 2, "u8": 1, "bool": 1, "f8e4m3": 1, "f8e5m2": 1}


class Missing(Exception):
    """Why a mode cannot run a case: a line in the record, no failure."""


class Tensor:
    def __init__(self, param):
        self.name, self.type, self.direction = param["name"], param["type"], param["direction"]
        self.shape, self.path = tuple(param["extents"]), param["file"]
        self.bytes = BYTES[self.type]
        for n in self.shape:
            self.bytes *= n

    def read(self):
        with open(self.path, "rb") as f:
            return f.read()


class Case:
    def __init__(self, request):
        self.request = request
        self.kernel, self.device, self.threads = request["kernel"], request["device"], request["threads"]
        tensors = [Tensor(p) for p in request["params"] if "file" in p]
        self.inputs = [t for t in tensors if t.direction == "in"]
        self.outputs = [t for t in tensors if t.direction == "out"]
        if len(self.inputs) + len(self.outputs) < len(tensors):
            raise Missing("an argument that is overwritten in place")
        self.scalars = {p["name"]: p["value"] for p in request["params"] if p["direction"] in ("scalar", "const") and "value" in p}
        one = self.set_bytes = sum(t.bytes for t in tensors)
        cold = any(f.endswith(".cold") for f in request["figures"])
        self.cold = cold
        self.sets = min(1 << 16, max(2, -(-request["rotate_bytes"] // max(one, 1)))) if cold else 1

    def rotation(self):
        sets = self.sets if self.cold else 0
        return {"sets": sets, "bytes_of_set": self.set_bytes if sets else 0, "bytes": self.set_bytes * sets}

    def type(self, name):
        return next(t.type for t in self.inputs + self.outputs if t.name == name)

    def only(self, *types):
        for t in self.inputs + self.outputs:
            if t.type not in types:
                raise Missing(f"{t.name} is {t.type}, and it takes {' '.join(types)}")

    def pick(self, table):
        """the entry of a table by kernel"""
        if self.kernel not in table:
            raise Missing(f"it has no {self.kernel}")
        return table[self.kernel]


class Runner:
    """call(k): one call on buffers k, into outputs k. Set k = 0 is the one whose outputs are checked. batch(first, calls) may do many at once;
    sync() waits for what was started; graph(calls) may give device time in ns where there is a device."""

    allocation, configuration = "given", ""
    clock = "Python's monotonic clock around calls and a synchronise: the interpreter is part of it"

    def call(self, k):
        raise NotImplementedError

    def batch(self, first, calls, sets):
        for i in range(calls):
            self.call((first + i) % sets)

    def sync(self):
        pass

    def output(self, name):
        """bytes of an output of set 0, as call(0) left it"""
        raise NotImplementedError

    device_time = None


class Times:
    def __init__(self, case, runner):
        self.case, self.runner, self.taken = case, runner, 0
        self.request = case.request

    def sample(self, span, regime, calls):
        sets = self.case.sets if regime == "cold" else 1
        first = self.taken % sets
        if regime == "cold":
            self.taken += calls
        if span == "device" and self.runner.device_time:
            return first, int(self.runner.device_time(first, calls, sets))
        self.runner.sync()
        start = time.perf_counter_ns()
        self.runner.batch(first, calls, sets)
        self.runner.sync()
        return first, time.perf_counter_ns() - start

    def figure(self, name):
        span, mode, regime = name.split(".")
        calls = 1
        for _ in range(8 if mode == "batch" else 0):
            ns = self.sample(span, regime, calls)[1]
            if ns >= 0.8 * self.request["sample_ns"]:
                break
            calls = int(calls * min(64, max(1.25, self.request["sample_ns"] / max(ns, 1)))) + 1
        samples = [self.sample(span, regime, calls) for _ in range(self.request["samples"])]
        return {"name": name, "span": span, "mode": mode, "regime": regime, "calls": calls, "sets": self.case.sets if regime == "cold" else 1,
                "clock": self.runner.device_clock if span == "device" and self.runner.device_time else self.runner.clock,
                "first_set": [s[0] for s in samples], "samples_total_ns": [s[1] for s in samples]}

    def all(self):
        start, before = time.perf_counter_ns(), 0
        while True:  # until the time is over and two batches in turn take as long, within 5 %
            ns = self.sample("end_to_end", "resident", 8)[1]
            passed = time.perf_counter_ns() - start
            settled = before > 0 and abs(ns - before) <= 0.05 * before
            before = ns
            if passed >= self.request["warmup_ns"] and (settled or passed >= 8 * self.request["warmup_ns"]):
                break
        return [self.figure(f) for f in self.request["figures"]]


class Buffers:
    """sets of the arguments in one mapping each, aligned to pages, for adapters that take addresses"""

    def __init__(self, case):
        self.step, self.map = {}, {}
        for t in case.inputs + case.outputs:
            self.step[t.name] = (t.bytes + 255) & ~255 or 256
            self.map[t.name] = mmap.mmap(-1, self.step[t.name] * case.sets)
            data = t.read() if t.direction == "in" else b"\xa5" * t.bytes
            for k in range(case.sets):
                at = k * self.step[t.name]
                self.map[t.name][at : at + t.bytes] = data

    def address(self, name, k=0):
        return ctypes.addressof(ctypes.c_char.from_buffer(self.map[name])) + k * self.step[name]

    def bytes(self, tensor, k=0):
        at = k * self.step[tensor.name]
        return self.map[tensor.name][at : at + tensor.bytes]


def say(line):
    print(json.dumps(line), flush=True)


def serve(name, version, modes):
    """modes: name of the mode -> function of a Case that gives a Runner. version: text, or the Exception of the import that failed."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: {os.path.basename(sys.argv[0])} REQUEST.json (rowfold bench --peers {name} writes it)")
    if isinstance(version, Exception):
        say({"peer": name, "missing": f"not installed: {version}"})
        return
    with open(sys.argv[1], encoding="utf-8") as f:
        request = json.load(f)
    for mode, make in modes.items():
        about = {"peer": name, "version": version, "mode": mode, "process": {"id": os.getpid()}}
        try:
            case = Case(request)
            runner = make(case)
            runner.sync()
            runner.call(0)
            runner.sync()
            outputs = {t.name: f"{t.path}.{mode}" for t in case.outputs}
            for t in case.outputs:
                with open(outputs[t.name], "wb") as f:
                    f.write(runner.output(t.name))
            figures = Times(case, runner).all()
            say(about | {"allocation": runner.allocation, "configuration": runner.configuration, "figures": figures, "outputs": outputs, "rotation": case.rotation()})
        except Missing as why:
            say(about | {"missing": str(why)})
        except Exception as why:  # pylint: disable=broad-except  # whatever a framework throws is its answer
            say(about | {"missing": f"it failed: {type(why).__name__}: {str(why)[:300]}"})
