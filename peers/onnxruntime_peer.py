#!/usr/bin/env python3
"""Peer: ONNX Runtime on the CPU, one node a model, f32, results into memory that is given."""
import rowpeer

try:
    import numpy as np
    import onnx
    import onnxruntime as ort

    VERSION = ort.__version__
except ImportError as why:
    VERSION = why

OPS = {"softmax": ("Softmax", {"axis": -1}), "log_softmax": ("LogSoftmax", {"axis": -1}), "layernorm": ("LayerNormalization", {"axis": -1}),
       "sum": ("ReduceSum", {"keepdims": 0}), "argmax": ("ArgMax", {"axis": -1, "keepdims": 0})}


class Session(rowpeer.Runner):
    def __init__(self, case):
        case.only("f32", "i64")
        if case.device != "host":
            raise rowpeer.Missing("this adapter runs on the CPU")
        op, attributes = case.pick(OPS)
        if op == "LayerNormalization":
            attributes = attributes | {"epsilon": case.scalars.get("eps", 1e-5)}
        names = {"f32": onnx.TensorProto.FLOAT, "i64": onnx.TensorProto.INT64}
        info = onnx.helper.make_tensor_value_info
        extra = [onnx.helper.make_tensor("axes", onnx.TensorProto.INT64, [1], [-1])] if op == "ReduceSum" else []
        node = onnx.helper.make_node(op, [t.name for t in case.inputs] + [e.name for e in extra], [t.name for t in case.outputs], **attributes)
        graph = onnx.helper.make_graph([node], "row", [info(t.name, names[t.type], t.shape) for t in case.inputs],
                                       [info(t.name, names[t.type], t.shape) for t in case.outputs], extra)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        options = ort.SessionOptions()
        options.intra_op_num_threads = case.threads
        self.session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self.configuration = f"CPUExecutionProvider, {case.threads or 'all'} threads"
        self.case, self.buffers = case, rowpeer.Buffers(case)
        kinds = {"f32": np.float32, "i64": np.int64}
        self.bindings = []
        for k in range(case.sets):
            b = self.session.io_binding()
            for t in case.inputs:
                b.bind_input(t.name, "cpu", 0, kinds[t.type], t.shape, self.buffers.address(t.name, k))
            for t in case.outputs:
                b.bind_output(t.name, "cpu", 0, kinds[t.type], t.shape, self.buffers.address(t.name, k))
            self.bindings.append(b)

    def call(self, k):
        self.session.run_with_iobinding(self.bindings[k])

    def output(self, name):
        return self.buffers.bytes(next(t for t in self.case.outputs if t.name == name))


if __name__ == "__main__":
    rowpeer.serve("onnxruntime", VERSION, {"default": Session})
