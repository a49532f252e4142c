#!/usr/bin/env python3
"""rows.json of `cuda_device speed` and torch.json of torch_rows.py -> one table: the fastest plan of each case beside the ceiling, PyTorch, Liger and QuACK.

usage: table.py ROWS TORCH      us a call, medians [least, greatest] of the samples; share: ceiling over rowfold"""
import json
import statistics
import sys


def lines(path, needed):
    try:
        with open(path, encoding="utf-8") as f:
            found = [json.loads(line) for line in f if line.startswith("{")]
    except FileNotFoundError:
        found = []
    if needed and not all("shape" in row for row in found or [{}]):
        sys.exit(f"table.py: {path} has no lines of `cuda_device speed`")
    return found


def case(row):
    shape = dict(part.split("=") for part in row["shape"].split(","))
    columns = "x".join(v for k, v in shape.items() if k not in ("rows", "resident") and "." not in k)
    strides = [f"{k}={v}" for k, v in shape.items() if "." in k]
    return ":".join([row["kernel"], row["type"], shape["rows"] + "x" + columns] + strides + (["resident"] if "resident" in shape else []))


def figure(median, least, most):
    return f"{median:.2f} [{least:.2f}, {most:.2f}]"


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: table.py ROWS TORCH")
    best, peers = {}, {}
    for row in lines(sys.argv[1], True):
        name = case(row)
        if name not in best or row["median_us"] < best[name]["median_us"]:
            best[name] = row
    for row in lines(sys.argv[2], False):
        peers[row["case"], row["mode"]] = figure(row["us"], row["min_us"], row["max_us"]) if "us" in row else "failed"
    head = ["case", "rowfold", "ceiling", "share", "torch eager", "torch.compile", "max-autotune", "Liger", "QuACK", "plan"]
    table = [head]
    for name, row in sorted(best.items()):
        us = sorted(row["samples_us"])
        table.append([name, figure(statistics.median(us), us[0], us[-1]), f"{row['ceiling_us']:.2f}", f"{row['ceiling_us'] / row['median_us']:.3f}"]
                     + [peers.get((name, mode), "-") for mode in ("eager", "compile", "max-autotune", "liger", "quack")] + [row["plan"]])
    widths = [max(len(r[i]) for r in table) for i in range(len(head) - 1)] + [0]
    for r in table:
        print("  ".join(cell.ljust(w) for cell, w in zip(r, widths)).rstrip())


if __name__ == "__main__":
    main()
