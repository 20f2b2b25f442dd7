"""Writes the network as an ONNX file with the very graph of the challenge's model.

Node for node what PyTorch 2.3 exports (opset 14): the shapes that it computes
at run time, its layer norms and its GELU in single operations. ONNX Runtime then
fuses the same operators, and so computes with the same arithmetic.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CONTEXT, STATE, HALF, WIDTH, HEADS, HIDDEN, LAYERS, VOCABULARY = 20, 4, 64, 128, 4, 512, 4, 1024
OPSET, IR_VERSION, NODES = 14, 7, 455
EPSILON = 1e-5


class Builder:
    """Collects nodes and names each after its scope, as the exporter does."""

    def __init__(self):
        self.nodes, self.initializers, self.counts = [], [], {}

    def initializer(self, name, array):
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, scope, op, *inputs, outputs=1, result=None, **attributes):
        n = self.counts[scope, op] = self.counts.get((scope, op), -1) + 1
        name = f"{scope}/{op}" + (f"_{n}" if n else "")
        results = [result] if result else [f"{name}_output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, results, name=name, **attributes))
        return results[0] if outputs == 1 else results

    def constant(self, scope, value):
        return self.node(scope, "Constant", value=numpy_helper.from_array(np.asarray(value)))

    def long(self, scope, value):
        return self.constant(scope, np.array(value, np.int64))

    def float(self, scope, value):
        return self.constant(scope, np.array(value, np.float32))

    def unsqueeze(self, scope, x):
        return self.node(scope, "Unsqueeze", x, self.long("/unnamed", [0]))

    def cast(self, scope, x, to):
        return self.node(scope, "Cast", x, to=to)

    def norm(self, scope, x, prefix):
        centred = self.node(scope, "Sub", x, self.node(scope, "ReduceMean", x, axes=[-1]))
        square = self.node(scope, "Pow", centred, self.float(scope, 2))
        variance = self.node(scope, "ReduceMean", square, axes=[-1])
        variance = self.node(scope, "Add", variance, self.float(scope, EPSILON))
        scaled = self.node(scope, "Div", centred, self.node(scope, "Sqrt", variance))
        return self.node(
            scope, "Add", self.node(scope, "Mul", scaled, prefix + ".weight"), prefix + ".bias"
        )

    def reshape(self, scope, x, *dims):
        return self.node(
            scope, "Reshape", x, self.node(scope, "Concat", *dims, axis=0), allowzero=0
        )

    def attention(self, scope, x, layer, positions, products):
        dims = []
        for i in range(3):
            shape = self.node(scope, "Shape", x)
            dims.append(self.node(scope, "Gather", shape, self.long(scope, i), axis=0))
        normed = self.norm(scope + "/layer_norm", x, f"transformer.h.{layer}.attn.layer_norm")
        qkv = self.node(scope + "/c_attn", "MatMul", normed, products["qkv"])
        q, k, v = self.node(scope, "Split", qkv, self.long(scope, [WIDTH] * 3), outputs=3, axis=2)
        size = self.node(scope, "Div", dims[2], self.long(scope, HEADS))
        size = self.cast(scope, self.cast(scope, size, TensorProto.INT64), TensorProto.INT64)
        shapes = []
        for _ in range(3):
            batch, length = self.unsqueeze(scope, dims[0]), self.unsqueeze(scope, dims[1])
            heads = self.long(scope, [HEADS])
            shapes.append(
                self.node(
                    scope, "Concat", batch, length, heads, self.unsqueeze(scope, size), axis=0
                )
            )
        k = self.node(scope, "Reshape", k, shapes[0], allowzero=0)
        q = self.node(scope, "Reshape", q, shapes[1], allowzero=0)
        q = self.node(scope, "Transpose", q, perm=[0, 2, 1, 3])
        v = self.node(scope, "Reshape", v, shapes[2], allowzero=0)
        v = self.node(scope, "Transpose", v, perm=[0, 2, 1, 3])
        mask = self.node(scope, "Gather", f"transformer.h.{layer}.attn.bias", positions, axis=2)
        k = self.node(scope, "Transpose", k, perm=[0, 2, 3, 1])
        scores = self.node(scope, "MatMul", q, k)
        scores = self.node(scope, "Mul", scores, self.float(scope, 1 / np.sqrt(WIDTH // HEADS)))
        mask = self.cast(scope, self.node(scope, "Not", mask), TensorProto.BOOL)
        scores = self.node(scope, "Where", mask, self.float(scope, -np.inf), scores)
        weights = self.node(scope, "Softmax", scores, axis=-1)
        mixed = self.node(scope, "MatMul", weights, v)
        mixed = self.node(scope, "Transpose", mixed, perm=[0, 2, 1, 3])
        dims = [self.unsqueeze(scope, dim) for dim in dims]
        mixed = self.reshape(scope, mixed, *dims)
        return self.node(scope + "/c_proj", "MatMul", mixed, products["projection"])

    def mlp(self, scope, x, layer, products):
        normed = self.norm(scope + "/layer_norm", x, f"transformer.h.{layer}.mlp.layer_norm")
        f = self.node(scope + "/c_fc", "MatMul", normed, products["fc"])
        scope_act = scope + "/act"
        cube = self.node(scope_act, "Mul", f, self.node(scope_act, "Mul", f, f))
        inner = self.node(scope_act, "Mul", self.float(scope_act, 0.044715), cube)
        inner = self.node(scope_act, "Add", f, inner)
        inner = self.node(scope_act, "Mul", self.float(scope_act, np.sqrt(2 / np.pi)), inner)
        inner = self.node(scope_act, "Tanh", inner)
        inner = self.node(scope_act, "Add", self.float(scope_act, 1), inner)
        g = self.node(scope_act, "Mul", f, inner)
        g = self.node(scope_act, "Mul", self.float(scope_act, 0.5), g)
        return self.node(scope + "/c_proj", "MatMul", g, products["out"])


def build(weights):
    """The model of a dictionary of float32 arrays, named as in train.py."""
    b = Builder()
    w = {name: np.asarray(array, np.float32) for name, array in weights.items()}
    b.initializer("transformer.wt_embedding.bias", w["state_bias"])
    b.initializer("transformer.wt2_embedding.weight", w["token_embedding"])
    b.initializer("transformer.wp_embedding.weight", w["position_embedding"])
    b.initializer(
        "transformer.h.0.attn.bias", np.tril(np.ones((CONTEXT, CONTEXT), bool))[None, None]
    )
    for i in range(LAYERS):
        for part in ("attn", "mlp"):
            for kind in ("weight", "bias"):
                b.initializer(
                    f"transformer.h.{i}.{part}.layer_norm.{kind}", w[f"{part}_norm_{kind}"][i]
                )
    b.initializer("transformer.layer_norm_f.weight", w["final_norm_weight"])
    b.initializer("transformer.layer_norm_f.bias", w["final_norm_bias"])
    state = b.initializer("states.weight", w["state_embedding"])
    products = [
        {
            name: b.initializer(f"h.{i}.{name}.weight", w[name][i])
            for name in ("qkv", "projection", "fc", "out")
        }
        for i in range(LAYERS)
    ]
    head = b.initializer("head.weight", w["head"])

    for i in reversed(range(1, LAYERS)):  # the layers share one mask
        b.node("", "Identity", "transformer.h.0.attn.bias", result=f"transformer.h.{i}.attn.bias")
    length = b.node("", "Gather", b.node("", "Shape", "states"), b.long("", 1), axis=0)
    first, end = b.long("", 0), b.cast("", length, TensorProto.INT64)
    positions = b.node("", "Range", first, end, b.long("", 1))
    states = b.node("/wt_embedding", "MatMul", "states", state)
    states = b.node("/wt_embedding", "Add", "transformer.wt_embedding.bias", states)
    tokens = b.node("/wt2_embedding", "Gather", "transformer.wt2_embedding.weight", "tokens")
    row = b.node("", "Unsqueeze", positions, b.long("", [0]))
    shape = b.long("", [-1]), b.unsqueeze("", length)
    place = b.reshape("", row, *shape)
    place = b.node("/wp_embedding", "Gather", "transformer.wp_embedding.weight", place)
    x = b.node("", "Add", b.node("", "Concat", states, tokens, axis=-1), place)
    for i in range(LAYERS):
        scope = f"/h.{i}"
        x = b.node(scope, "Add", x, b.attention(scope + "/attn", x, i, positions, products[i]))
        x = b.node(scope, "Add", x, b.mlp(scope + "/mlp", x, i, products[i]))
    x = b.norm("/layer_norm_f", x, "transformer.layer_norm_f")
    b.node("/lm_head", "MatMul", x, head, result="output")
    if len(b.nodes) != NODES:
        raise AssertionError(f"{len(b.nodes)} nodes, the challenge's graph has {NODES}")

    def value(name, kind, *dims):
        return helper.make_tensor_value_info(name, kind, ["b", CONTEXT, *dims])

    graph = helper.make_graph(
        b.nodes,
        "main_graph",
        [value("states", TensorProto.FLOAT, STATE), value("tokens", TensorProto.INT64)],
        [value("output", TensorProto.FLOAT, VOCABULARY)],
        b.initializers,
    )
    model = helper.make_model(
        graph,
        producer_name="lockstep",
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)],
    )
    onnx.checker.check_model(model)
    return model


def save(weights, path):
    with open(path, "wb") as file:
        file.write(build(weights).SerializeToString(deterministic=True))
