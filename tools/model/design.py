#!/usr/bin/env python3
"""A design of problems: kernels of the library x shapes x types x regimes, each with its split, for rowfold-collect.

    python3 tools/model/design.py cpu  > results/model/cpu.suite
    python3 tools/model/design.py cpu2 > results/model/cpu2.suite          likewise cpu3
    python3 tools/model/design.py h200 > results/model/h200.suite
    python3 tools/model/design.py h200-more > results/model/h200-more.suite         likewise h200-ragged and h200-held

The splits are made here, before anything is fitted: `train`, and three that are held out, each different from `train` in one
respect: `shapes` (extents that train does not have), `operators` (kernels that it does not have), `types` (likewise). Sizes are
spread evenly over their logarithm, from 2 KB on; the same arguments give the same design. h200-more has more problems to fit to,
none of them held out; h200-ragged has rows of any length to fit to, which h200 has among those held out alone; h200-held has other held-out
problems than h200; cpu2 has other problems than cpu, more to fit to, and among those rows of any length, cpu3 others again."""
import random
import sys

FILES = {
    "softmax": ["softmax", "scaled_softmax", "softmax_backward", "log_softmax"],
    "rmsnorm": ["rmsnorm", "rmsnorm_backward", "gated_rmsnorm", "residual_rmsnorm"],
    "layernorm": ["layernorm", "residual_layernorm", "layernorm_plain_backward", "layernorm_save"],
    "reduce": ["sum", "max", "argmax", "mean_variance", "logsumexp", "variance", "norm2"],
    "quantize": ["rmsnorm_fp8", "quantize_i8", "quantize_fp8", "rmsnorm_i8"],
    "normalize": ["l2_normalize", "min_max_scale", "standardize"],
    "compare": ["kl_divergence", "entropy_logits", "cosine_similarity"],
    "cross_entropy": ["cross_entropy", "cross_entropy_backward"],
}
HELD_OPERATORS = ["log_softmax", "residual_rmsnorm", "layernorm", "layernorm_plain_backward", "variance", "quantize_fp8", "rmsnorm_i8",
                  "min_max_scale", "cosine_similarity", "cross_entropy"]
TRAIN_N = [64, 128, 200, 256, 512, 1000, 1024, 1536, 2048, 4096, 6144, 8192, 12288, 16384, 32768, 65536, 131072]
TRAIN_ROWS = [1, 3, 8, 32, 100, 128, 512, 1024, 4096, 8192, 32768, 131072]
RAGGED = [72, 100, 333, 515, 1001, 2500, 3001, 10007, 30011]
HELD_N = [96, 257, 769, 1280, 3072, 5120, 8193, 20000, 50257]
HELD_ROWS = [2, 23, 64, 333, 2048, 16384, 50000]
TRAIN_TYPES, HELD_TYPES = ["f32", "bf16"], ["f16"]
BYTES = {"f32": 4, "bf16": 2, "f16": 2}
# most elements, how many problems of each split, share of the cold regime, how many of a split may have more than `large` elements
DEVICES = {
    "cpu": dict(most=1 << 23, large=1 << 21, nlarge=12, counts=dict(train=120, shapes=30, operators=30, types=30)),
    "cpu2": dict(most=1 << 23, large=1 << 21, nlarge=12, beside="cpu", ragged=RAGGED,
                 counts=dict(train=210, shapes=30, operators=30, types=30)),
    "cpu3": dict(most=1 << 23, large=1 << 21, nlarge=12, beside="cpu2", ragged=RAGGED,
                 counts=dict(train=210, shapes=30, operators=30, types=30)),
    "h200": dict(most=1 << 27, large=1 << 24, nlarge=1, counts=dict(train=130, shapes=30, operators=30, types=30)),
    "h200-more": dict(most=1 << 24, large=1 << 23, nlarge=4, beside="h200", counts=dict(train=160)),
    "h200-ragged": dict(most=1 << 24, large=1 << 23, nlarge=3, n=RAGGED, counts=dict(train=110)),
    "h200-held": dict(most=1 << 27, large=1 << 24, nlarge=1, beside="h200", counts=dict(shapes=30, operators=30, types=30)),
}


def pick(rng, split, device, level):
    names = [(f, k) for f in FILES for k in FILES[f] if (k in HELD_OPERATORS) == (split == "operators")]
    while True:
        file, kernel = rng.choice(names)
        ty = rng.choice(HELD_TYPES if split == "types" else TRAIN_TYPES)
        n = rng.choice(HELD_N if split == "shapes" else device.get("n", TRAIN_N + device.get("ragged", [])))
        rows = rng.choice(HELD_ROWS if split == "shapes" else TRAIN_ROWS)
        elements = rows * n
        if elements * BYTES[ty] < 2048 or elements > device["most"]:
            continue
        if abs(elements / level - 1) < 0.75:
            return file, kernel, rows, n, ty


def design(name):
    device, rng, nlarge = DEVICES[name], random.Random("rowfold " + name), 0
    seen, lines = (set(design(device["beside"])[0]) if "beside" in device else set()), []
    for split, count in device["counts"].items():
        made = 0
        while made < count:
            level = 2 ** rng.uniform(10, device["most"].bit_length() - 1)
            if level > device["large"] and nlarge >= device["nlarge"] * (made + 1) / count:
                continue
            file, kernel, rows, n, ty = pick(rng, split, device, level)
            if (kernel, rows, n, ty) in seen:
                continue
            seen.add((kernel, rows, n, ty))
            nlarge += rows * n > device["large"]
            made += 1
            types = f"T={ty},S=f32" if file == "reduce" and kernel not in ("max", "argmax") else ty
            regime = "cold" if rng.random() < 0.35 else "resident"
            lines.append(f"../../kernels/{file}.row {kernel} rows={rows},n={n} {types} regimes={regime} # {split}")
        nlarge = 0
    return seen, lines


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in DEVICES:
        sys.exit(f"usage: design.py {'|'.join(DEVICES)}")
    print(f"# Problems for {sys.argv[1]}, made by tools/model/design.py; the word behind a line is its split. FROZEN before anything was fitted.")
    print("\n".join(design(sys.argv[1])[1]))
