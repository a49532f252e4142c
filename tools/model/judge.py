#!/usr/bin/env python3
"""How well do cost policies choose? Trials that rowfold-collect made -> a fit to the split `train`, and figures per split.

    python3 tools/model/judge.py --rowfold R --store trials.db --design results/model/cpu.suite [--calibration FILE] [--fit FILE]
        [--splits train,shapes,operators,types] [--score-with FILE] [--transfer FILE] [--json FILE] [--folds K]

--fit FILE writes a calibration that is fitted to the trials of `train`, on top of --calibration; without it --score-with (or the
nominal coefficients) is judged. --transfer FILE takes from a calibration of another device what both kinds of machine have
(copy, cached, alu, div, special, access, step, row, launch), and nominal coefficients else. Only the splits that are named are looked at: one that is held out is looked at once.
--folds K cross-validates on `train` alone: each of K parts of its problems is judged by a fit to the others.

Of each problem: regret is the time of the plan that a policy puts first over the fastest one's, less 1 (plans that it cannot tell
apart count with their mean); top 8: is one of the plans within 1 % of the fastest among its first 8; rank: Spearman's. The noise
floor is what measuring alone gives: the regret of choosing by one half of the samples and judging by the other. `beyond noise` is the
regret less what the halves of the two plans' samples differ by, a tie where that is more. `fixed` is the best
single rule: the dimensions that are best in the mean over `train`, wherever a problem has such a plan."""
import argparse
import hashlib
import json
import math
import os
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile

SPLITS = ["train", "shapes", "operators", "types"]


def read_design(path):
    split = {}
    for line in open(path):
        m = re.match(r"(\S+) (\S+) (\S+) (\S+) regimes=(\w+) # (\w+)", line)
        if m:
            split[(m[2], m[3], m[4].split(",")[0].split("=")[-1], m[5])] = m[6]
    return split


def key_of(t):
    first = re.search(r"=(\w+)", t["types"])[1]
    return t["kernel"], t["shape"], first, "cold" if ",cold" in t["promises"] else "resident"


def part_store(store, design, splits, out):
    """A copy of the store that has the trials of these splits alone."""
    db = sqlite3.connect(store)
    db.execute("VACUUM INTO ?", (out,))
    db.close()
    db = sqlite3.connect(out)
    gone = []
    for pid, kernel, shape, types, promises in db.execute("SELECT id, kernel, shape, types, promises FROM problem").fetchall():
        key = key_of(dict(kernel=kernel, shape=shape, types=types, promises=promises))
        if design.get(key) not in splits:
            gone.append((pid,))
    db.executemany("INSERT INTO forgotten (problem, upto, time) VALUES (?, 1 << 60, 0)", gone)
    db.commit()
    db.close()


def run(args, *words):
    out = subprocess.run([args.rowfold, *words], capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"rowfold {' '.join(words)}: {out.stderr}")
    return out.stdout


def canonical(o):
    """As the library writes JSON: keys sorted, no spaces, 17 digits."""
    if isinstance(o, dict):
        return "{" + ",".join(json.dumps(k) + ":" + canonical(o[k]) for k in sorted(o)) + "}"
    if isinstance(o, list):
        return "[" + ",".join(map(canonical, o)) + "]"
    if isinstance(o, float):
        s = re.sub(r"e([+-]?)0*(\d)", lambda m: "e" + m[1].strip("+") + m[2], f"{o:.17g}")
        return s if re.search(r"[.e]", s) else s + ".0"
    return json.dumps(o, ensure_ascii=False)


SHARED = ["copy", "cached", "alu", "div", "special", "access", "step", "row", "launch"]


def transferred(args, store, path, out):
    """A calibration for the device of the store, with the shared coefficients of another's."""
    own, other = os.path.join(os.path.dirname(out), "own.calibration"), json.load(open(path))
    run(args, "calibrate", "--trials", "--store", store, "-o", own, "-q")
    doc, value = json.load(open(own)), {c["name"]: c["value"] for c in other["coefficients"]}
    for c in doc["coefficients"]:
        c["value"] = value[c["name"]] if c["name"] in SHARED else c["nominal"]
    del doc["hash"]
    doc["hash"] = hashlib.sha256(canonical(doc).encode()).hexdigest()
    open(out, "w").write(canonical(doc))
    return out


def ranks(v):
    order = sorted(range(len(v)), key=lambda i: v[i])
    out, i = [0.0] * len(v), 0
    while i < len(v):
        j = i
        while j < len(v) and v[order[j]] <= v[order[i]]:
            j += 1
        for k in range(i, j):
            out[order[k]] = (i + j - 1) / 2
        i = j
    return out


def spearman(a, b):
    x, y, mean = ranks(a), ranks(b), (len(a) - 1) / 2
    xx, yy = sum((i - mean) ** 2 for i in x), sum((i - mean) ** 2 for i in y)
    return sum((i - mean) * (j - mean) for i, j in zip(x, y)) / math.sqrt(xx * yy) if xx and yy else math.nan


def regret(score, ns):
    least, best = min(score), min(ns)
    first = [t for s, t in zip(score, ns) if s <= least * (1 + 1e-9)]
    return sum(first) / len(first) / best - 1, len(first)


def spread(t):
    """What two measurements of one plan differ by, as the halves of its samples tell."""
    a, b = halves(t)
    return abs(math.log(a / b))


def beyond(r, ts, ns, score):
    pick, best = ts[score.index(min(score))], ts[ns.index(min(ns))]
    return max(0, r - max(spread(pick), spread(best)))


def halves(t):
    n = t["samples_ns"]
    k = len(n) // 2
    return (sorted(n[:k])[k // 4], sorted(n[k:])[k // 4]) if k else (t["ns"],) * 2


RULE = ["W", "V", "P", "acc", "flight", "stat", "div", "exp", "load", "store", "prefetch", "cluster", "early", "overlap", "hold.x"]


def slots(t):
    """What a fixed rule can name whatever the shape: the plan's words, and lanes as slots of a lane."""
    p = dict(i.split("=") for i in t["plan"].split())
    return {d: p[d] for d in RULE if d in p and d not in ("W", "V", "P")}


def rule_of(problems):
    """The value of each dimension that is best in the mean over the problems which have a choice of it."""
    gain = {}
    for ts in problems:
        best = min(t["ns"] for t in ts)
        for d in RULE:
            by = {}
            for t in ts:
                v = slots(t).get(d)
                if v is not None:
                    by.setdefault(v, []).append(math.log(t["ns"] / best))
            if len(by) > 1:
                mean = statistics.mean(x for l in by.values() for x in l)
                for v, l in by.items():
                    gain.setdefault(d, {}).setdefault(v, []).append(statistics.mean(l) - mean)
    return {d: min(g, key=lambda v: statistics.mean(g[v]) if len(g[v]) > 4 else 9) for d, g in gain.items()}


def fixed_score(t, rule):
    s = slots(t)
    return sum(s.get(d) != v for d, v in rule.items() if d in s)


def quantile(v, q):
    v = sorted(v)
    return v[min(len(v) - 1, max(0, math.ceil(q * len(v)) - 1))]


def judge(problems, names, rule):
    out = {}
    for name in names + ["noise"]:
        reg, top, rank, ties, ratio, worst, past = [], [], [], 0, [], [], []
        for ts in problems:
            ns = [t["ns"] for t in ts]
            if name == "noise":
                a, b = zip(*(halves(t) for t in ts))
                reg.append((b[a.index(min(a))] / min(b) - 1 + a[b.index(min(b))] / min(a) - 1) / 2)
                top.append(1)
                continue
            score = [fixed_score(t, rule) if name == "fixed" else t["scores"][name] for t in ts]
            r, n = regret(score, ns)
            reg.append(r)
            ties += n > 1
            order = sorted(range(len(ts)), key=lambda i: score[i])[:8]
            top.append(any(ns[i] <= 1.01 * min(ns) for i in order))
            if len(set(score)) > 1:
                rank.append(spearman(score, ns))
            if name == "roofline":
                past.append(beyond(r, ts, ns, score))
                ratio += [abs(math.log(s * 1e9 / t)) for s, t in zip(score, ns)]
                old = [t["scores"]["incumbent"] for t in ts] if "incumbent" in ts[0]["scores"] else None
                if old:
                    worst.append((1 + r) / (1 + regret(old, ns)[0]) - 1)
        out[name] = dict(problems=len(problems), median=statistics.median(reg), p90=quantile(reg, 0.9), max=max(reg),
                         mean=statistics.mean(reg), top8=statistics.mean(top))
        if rank:
            out[name].update(rank=statistics.median(rank), ties=ties)
        if ratio:
            out[name].update(predicted=math.exp(statistics.median(ratio)) - 1)
            out[name].update(beyond_median=statistics.median(past), beyond_p90=quantile(past, 0.9))
        if worst:
            out[name].update(worst_against_incumbent=max(worst))
    return out


def table(split, figures):
    print(f"\n{split}: {figures['noise']['problems']} problems\n  policy      median    p90    max   mean   top 8  rank  ties  predicted within (median)")
    for name, f in figures.items():
        print(f"  {name:10s} {100 * f['median']:6.1f}% {100 * f['p90']:5.1f}% {100 * f['max']:5.0f}% {100 * f['mean']:5.1f}%"
              f"  {100 * f['top8']:5.1f}%" + (f"  {f['rank']:.2f}  {f['ties']:3d}" if "rank" in f else "") +
              (f"   {100 * f['predicted']:.0f}%   beyond noise {100 * f['beyond_median']:.1f}%, p90 {100 * f['beyond_p90']:.1f}%"
               if "predicted" in f else "") +
              (f"   worst against the incumbent {100 * f['worst_against_incumbent']:+.1f}%" if "worst_against_incumbent" in f else ""))


def folded(args, design, tmp):
    """Problems of `train`, each scored by a fit to the parts that it is no part of."""
    part_of = {k: int(hashlib.sha256(" ".join(k).encode()).hexdigest(), 16) % args.folds for k, s in design.items() if s == "train"}
    problems, fit, held, fitted = [], *(os.path.join(tmp, name) for name in ("others.db", "held.db", "others.calibration"))
    for j in range(args.folds):
        for path, kept in ((fit, lambda i: i != j), (held, lambda i: i == j)):
            if os.path.exists(path):
                os.remove(path)
            part_store(args.store, {k: "kept" for k, i in part_of.items() if kept(i)}, ["kept"], path)
        run(args, "calibrate", "--trials", "--store", fit, "-o", fitted, "-q")
        problems += group(json.loads(run(args, "trials", "--scores", "--store", held, "--calibration", fitted))["trials"])
    return problems


def group(trials):
    by = {}
    for t in trials:
        t["terms"] = {i["name"]: i["value"] for i in t["score"]["terms"]}
        by.setdefault(t["problem"], []).append(t)
    return [ts for ts in by.values() if len(ts) >= 4]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rowfold", default="build/cli/rowfold")
    for o in ("store", "design"):
        p.add_argument("--" + o, required=True)
    for o in ("calibration", "fit", "score-with", "transfer", "json", "worst"):
        p.add_argument("--" + o)
    p.add_argument("--splits", default="train")
    p.add_argument("--folds", type=int)
    args = p.parse_args()
    design, doc = read_design(args.design), {}
    with tempfile.TemporaryDirectory() as tmp:
        if args.folds:
            return table(f"train in {args.folds} parts", judge(folded(args, design, tmp), ["roofline"], {}))
        train = os.path.join(tmp, "fit.db")
        part_store(args.store, design, ["train"], train)
        on_top = ["--calibration", args.calibration] if args.calibration else []
        if args.fit:
            run(args, "calibrate", "--trials", "--store", train, "-o", args.fit, "-q", *on_top)
        using = args.fit or args.score_with
        if args.transfer:
            using = transferred(args, train, args.transfer, os.path.join(tmp, "transfer.calibration"))
        scored = json.loads(run(args, "trials", "--scores", "--store", train, *(["--calibration", using] if using else [])))
        rule = rule_of(group(scored["trials"]))
        nominal = {}
        for split in args.splits.split(","):
            part = os.path.join(tmp, split + ".db")
            part_store(args.store, design, [split], part)
            trials = json.loads(run(args, "trials", "--scores", "--store", part, *(["--calibration", using] if using else [])))["trials"]
            for t in json.loads(run(args, "trials", "--scores", "--store", part))["trials"] if using else []:
                nominal[(t["problem"], t["plan"])] = t["scores"]["roofline"]
            for t in trials:
                if using:
                    t["scores"]["incumbent"] = nominal[(t["problem"], t["plan"])]
            problems = group(trials)
            names = ["roofline"] + (["incumbent"] if using else []) + ["prior", "service", "random", "fixed"]
            doc[split] = judge(problems, names, rule)
            table(split, doc[split])
            if args.worst:
                worst = sorted(problems, key=lambda ts: -regret([t["scores"]["roofline"] for t in ts], [t["ns"] for t in ts])[0])
                for ts in worst[:int(args.worst)]:
                    pick, best = min(ts, key=lambda t: t["scores"]["roofline"]), min(ts, key=lambda t: t["ns"])
                    print(f"\n{key_of(ts[0])}  regret {100 * (pick['ns'] / best['ns'] - 1):.0f}%")
                    for name, t in (("pick", pick), ("best", best)):
                        fixed = [set(u["plan"].split()) for u in ts]
                        words = [w for w in t["plan"].split() if not all(w in f for f in fixed)]
                        print(f"  {name} {t['ns'] / 1e3:9.2f} us, said {t['scores']['roofline'] * 1e6:9.2f}: {' '.join(words)}")
                        print("      " + " ".join(f"{k} {v * 1e6:.2f}" if k not in ("waves", "crowd") else f"{k} {v:.2f}" for k, v in t["terms"].items()))
    doc["rule"] = rule
    if args.json:
        json.dump(doc, open(args.json, "w"), indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
