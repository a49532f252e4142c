"""What the adapters on top of PyTorch share: tensors, the operators by kernel, device time from graphs of at least 200 calls."""
import rowpeer

try:
    import torch
    import torch.nn.functional as F

    VERSION = torch.__version__
    TYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32}
except ImportError as why:
    VERSION = why


def layer_norm(s, x, g=None, b=None):
    return F.layer_norm(x, x.shape[-1:], g, b, s.get("eps", 1e-5))


def ops():
    """kernel -> function of scalars and inputs, and the one with out= where the operator has it"""
    return {
        "softmax": (lambda s, x: torch.softmax(x, -1), lambda s, o, x: torch.softmax(x, -1, out=o)),
        "log_softmax": (lambda s, x: torch.log_softmax(x, -1), lambda s, o, x: torch.log_softmax(x, -1, out=o)),
        "rmsnorm": (lambda s, x, w: F.rms_norm(x, x.shape[-1:], w, s.get("eps", 1e-5)), None),
        "layernorm": (layer_norm, None),
        "residual_layernorm": (lambda s, x, r: layer_norm(s, x + r), None),
        "sum": (lambda s, x: x.sum(-1), lambda s, o, x: torch.sum(x, -1, out=o)),
        "argmax": (lambda s, x: x.argmax(-1), lambda s, o, x: torch.argmax(x, -1, out=o)),
        "cross_entropy": (lambda s, x, t: F.cross_entropy(x.float(), t, reduction="none"), None),
    }


class Rows(rowpeer.Runner):
    device_clock = "events around a graph of at least 200 calls"

    def __init__(self, case, wrap=None, table=None, out=True):
        case.only(*TYPES)
        plain, into = case.pick(table or ops())
        if len(case.outputs) != 1:
            raise rowpeer.Missing("more than one output")
        self.case, self.cuda = case, case.device.startswith("cuda")
        if self.cuda and not torch.cuda.is_available():
            raise rowpeer.Missing("torch sees no CUDA device")
        torch.set_grad_enabled(False)
        if case.threads:
            torch.set_num_threads(case.threads)
        place = torch.device(case.device if self.cuda else "cpu")

        def tensor(t):
            data = torch.frombuffer(bytearray(t.read()), dtype=TYPES[t.type]).reshape(t.shape)
            return [data.to(place, copy=True) for _ in range(case.sets)]

        self.inputs = list(zip(*[tensor(t) for t in case.inputs]))
        o = case.outputs[0]
        self.into = into if out and wrap is None else None
        self.allocation = "given" if self.into else "fresh"
        self.results = [torch.empty(o.shape, dtype=TYPES[o.type], device=place) if self.into else None for _ in range(case.sets)]
        self.plain = wrap(plain) if wrap else plain
        self.configuration = f"{torch.get_num_threads()} threads" if not self.cuda else torch.cuda.get_device_name(place)
        if self.cuda:
            self.device_time = self.graph_time

    def call(self, k):
        if self.into:
            self.into(self.case.scalars, self.results[k], *self.inputs[k])
        else:
            self.results[k] = self.plain(self.case.scalars, *self.inputs[k])

    def sync(self):
        if self.cuda:
            torch.cuda.synchronize()

    def graph_time(self, first, calls, sets):
        """whole turns over the sets in one graph, so that nothing comes again while a cache has it"""
        if calls == 1:
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record()
            self.call(first)
            b.record()
            b.synchronize()
            return a.elapsed_time(b) * 1e6
        each = -(-max(200, sets) // sets) * sets
        if getattr(self, "made", None) != each:
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                for k in range(3):
                    self.call(k % sets)
            torch.cuda.synchronize()
            self.recorded = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.recorded):
                for k in range(each):
                    self.call(k % sets)
            self.made = each
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        replays = -(-calls // each)
        self.recorded.replay()
        a.record()
        for _ in range(replays):
            self.recorded.replay()
        b.record()
        b.synchronize()
        return a.elapsed_time(b) * 1e6 / (replays * each) * calls

    def output(self, name):
        t = self.results[0].to(TYPES[self.case.type(name)]).contiguous().cpu()
        return bytes(t.view(torch.uint8).numpy()) if hasattr(t, "numpy") else b""
