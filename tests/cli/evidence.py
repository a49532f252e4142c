"""What a record must be, by other means than rowfold's: python3 evidence.py CHECK FILE. Canonical text here is Python's own, with numbers as
they stand in the file, so that no formatting of numbers is trusted."""
import hashlib
import json
import math
import os
import shutil
import statistics
import sys


class Spelt(float):
    """A number that keeps its spelling."""

    def __new__(cls, text):
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __repr__(self):
        return self.text


def canonical(x):
    if isinstance(x, dict):
        return "{" + ",".join(json.dumps(k, ensure_ascii=False) + ":" + canonical(x[k]) for k in sorted(x, key=lambda k: k.encode())) + "}"
    if isinstance(x, list):
        return "[" + ",".join(map(canonical, x)) + "]"
    if isinstance(x, Spelt):
        return x.text
    return json.dumps(x, ensure_ascii=False)


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def without(d, *keys):
    return {k: v for k, v in d.items() if k not in keys}


def sealed(d):
    return canonical(without(d, "hash") | {"hash": sha(canonical(without(d, "hash")))})


def read(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    d = json.loads(text, parse_float=Spelt)
    assert text == canonical(d) + "\n", "not canonical"
    assert d["hash"] == sha(canonical(without(d, "hash"))), "hash"
    return d


MASK = (1 << 64) - 1


class Rng:
    def __init__(self, s):
        self.s = s & MASK

    def next(self):
        self.s = (self.s + 0x9E3779B97F4A7C15) & MASK
        z = self.s
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def unit(self):
        return (self.next() >> 11) * 2.0**-53


def normal_f32(seed, param, shape):
    """rowfold-fill-1, as docs/records.md has it"""
    import struct

    t, last = 64 * seed + param, shape[-1]
    out = bytearray()
    for i in range(math.prod(shape)):
        row = Rng(t ^ ((i // last) * 0xD1342543DE82EF95))
        r = Rng(row.next() + i)
        v = -6.0
        for _ in range(12):
            v += r.unit()
        out += struct.pack("<f", v)
    return bytes(out)


def slots(n, W, V):
    return n // (W * V) * V + min(n % (W * V), V)


def case(c):
    assert c["source"]["sha256"] == sha(c["source"]["text"]) and c["program"]["sha256"] == sha(c["program"]["text"])
    added = ("case_sha256", "measurement", "failed", "bytes", "peers", "choose_s")
    assert c["case_sha256"] == sha(canonical(without(c, *added))), "case_sha256"
    n = c["counts"]
    assert n["candidates"] == n["refused"] + n["failed"] + n["timed"] + n["ranked"] == len(c["refusals"]) + len(c["trials"])
    assert c["legality"]["need"] <= c["legality"]["budget"]
    prior = next(s for s in c["scores"] if s["policy"] == "prior")
    k, d, l = prior["coefficients"], c["demand"], prior["launch"]
    program = k["round"] * d["lane_rounds"] + k["collective"] * d["reductions"] * math.ceil(l["lanes"] / l["subgroup"]) + k["setup"] / l["rows_per_group"]
    assert prior["total"] == program * max(1, math.ceil(l["rows"] / k["concurrent"])), "prior"
    for t in c["inputs"]["tensors"]:
        i = next(i for i, p in enumerate(c["params"]) if p["name"] == t["param"])
        p = c["params"][i]
        if p["type"] == "f32" and t["elements"] < 20000 and p["direction"] == "in":
            data = normal_f32(c["inputs"]["seed"], i, [c["shape"][a] for a in p["axes"]])
            assert hashlib.sha256(data).hexdigest() == t["sha256"], "inputs of " + t["param"]


def median(f):
    return statistics.median(t / f["calls"] for t in f["samples_total_ns"])


def measurement(m, options, regimes):
    names = [n for n in options["figures"] if n.rsplit(".", 1)[1] in regimes]
    assert [f["name"] for f in m["figures"]] == names
    for f in m["figures"]:
        assert len(f["samples_total_ns"]) == options["samples"] and abs(f["median_ns"] / median(f) - 1) < 1e-12
        assert f["calls"] == 1 or ".batch." in f["name"]
        assert (f["sets"] > 1) == (f["regime"] == "cold")
    assert m["first_check"]["ok"] and m["last_check"]["ok"] and m["inputs_unchanged"] and m["build"]["from_cache"] is False
    assert m["process"]["worker"] is True
    regimes = {n.rsplit(".", 1)[1] for n in names}
    if "cold" in regimes:
        assert m["rotation"]["bytes"] >= options["rotate_bytes"]
    kinds = {(c["kind"], c["regime"]) for c in m["ceilings"]}
    assert kinds == ({(k, r) for k in ("copy", "read", "write") for r in regimes} if m.get("round", 0) == m.get("slot", 0) == 0 else set())
    assert all(s["bound"] == "inf" or abs(s["value"] - s["want"]) <= s["bound"] * 1.01 + abs(s["want"]) * 2**-8 for o in m["outputs"] for s in o["samples"]
               if o["type"] in ("f32", "bf16"))


def check_bench(d):
    assert d["format"] == "rowfold-bench-1" and d["complete"] is True and d["cases"]
    for c in d["cases"]:
        assert "failed" not in c, c.get("failed")
        case(c)
        measurement(c["measurement"], d["options"], c["regimes"])


def check_catalog(d):
    assert d["format"] == "rowfold-catalog-1"
    roles = {b["role"]: b for b in d["provenance"]["binaries"]}
    assert {"executable", "library", "worker", "compiler"} <= set(roles)
    command = os.environ["ROWFOLD"]
    compiler = os.path.realpath(os.environ.get("ROWFOLD_CC") or shutil.which("cc"))
    for b in roles.values():  # a record names files without their folders
        near = compiler if b["role"] == "compiler" else os.path.join(os.path.dirname(command), b["path"])
        assert os.path.basename(near) == b["path"], b["path"]
        with open(near, "rb") as f:
            assert hashlib.sha256(f.read()).hexdigest() == b["sha256"], b["path"]
    for c in d["cases"]:
        case(c)


def check_replay(d, path):
    import os

    o, N = d["options"], len(d["reference"]["cases"])
    R, K = o["rounds"], len(o["peers"])
    ids = [c["id"] for c in d["reference"]["cases"]]
    units = {s: {c["id"]: c["unit"]["sha256"] for c in d[s]["cases"]} for s in ("reference", "candidate")}
    for s in units:
        check_catalog(d[s])
        assert d[s]["hash"] == sha(canonical(without(d[s], "hash")))
    first = {i: 0 for i in ids}
    after = {i: 0 for i in ids}
    for k, e in enumerate(d["schedule"]):
        r, p = divmod(k, N)
        c = (p + r) % N
        assert (e["round"], e["position"], e["case"]) == (r, p, ids[c])
        assert e["order"] == (["reference", "candidate"] if (r + c) % 2 == 0 else ["candidate", "reference"])
        assert e["peers_when"] == ("before" if (r + r // 2 + c // 2) % 2 == 0 else "after") and len(e["peer_order"]) == K
        first[e["case"]] += e["order"][0] == "reference"
        after[e["case"]] += e["peers_when"] == "after"
    assert len(d["schedule"]) == R * N and set(first.values()) == set(after.values()) == {R // 2}
    assert len(d["measurements"]) == 2 * R * N
    pids, times = set(), {}
    for k, m in enumerate(d["measurements"]):
        e = d["schedule"][k // 2]
        assert (m["ordinal"], m["round"], m["position"], m["case"], m["slot"]) == (k, e["round"], e["position"], e["case"], k % 2)
        assert m["side"] == e["order"][k % 2] and m["unit_sha256"] == units[m["side"]][m["case"]]
        measurement(m, o, next(c["regimes"] for c in d["reference"]["cases"] if c["id"] == m["case"]))
        pids.add((m["process"]["id"], m["process"]["started_unix_ns"]))
        for f in m["figures"]:
            times[m["case"], f["name"], m["side"], m["round"]] = median(f)
        for out in m["outputs"]:
            if out["file"]:
                folder = os.path.dirname(os.path.abspath(path))
                for name, want in ((out["file"], out["sha256"]), (out["expect"]["file"], out["expect"]["sha256"])):
                    with open(os.path.join(folder, name), "rb") as f:
                        assert hashlib.sha256(f.read()).hexdigest() == want, name
    assert len(pids) == len(d["measurements"]), "a process was used twice"
    assert sum(s["measurements"] for s in d["sittings"]) == len(d["measurements"])
    floors = {f: o["least_floor"] for f in o["figures"]}
    for r in d["results"]:
        ratios = [times[r["case"], r["figure"], "reference", k] / times[r["case"], r["figure"], "candidate", k] for k in range(R)]
        assert all(abs(a / b - 1) < 1e-12 for a, b in zip(ratios, r["ratios"]))
        assert abs(r["median"] / statistics.median(ratios) - 1) < 1e-12
        rng, medians = Rng(o["bootstrap"]["seed"]), []
        for _ in range(o["bootstrap"]["resamples"]):
            medians.append(statistics.median(r["ratios"][rng.next() % R] for _ in range(R)))
        medians.sort()
        B = len(medians)
        assert (r["bootstrap"]["low"], r["bootstrap"]["high"]) == (medians[math.floor(0.025 * B)], medians[math.ceil(0.975 * B) - 1])
        assert r["control"] == (units["reference"][r["case"]] == units["candidate"][r["case"]])
        if r["control"]:
            floors[r["figure"]] = max(floors[r["figure"]], abs(math.log(r["median"])))
    for f in floors:
        assert abs(floors[f] - d["floors"][f]) < 1e-12
    for r in d["results"]:
        t = math.log(r["median"])
        rule = "better" if r["min"] > 1 and t > floors[r["figure"]] else "worse" if r["max"] < 1 and t < -floors[r["figure"]] else "not resolved"
        assert r["verdict"] == ("control" if r["control"] else rule)
    for f, a in d["overall"].items():
        changed = [r for r in d["results"] if r["figure"] == f and not r["control"]]
        assert a["cases"] == len(changed)
        if changed:
            means = [math.exp(sum(math.log(r["ratios"][k]) for r in changed) / len(changed)) for k in range(R)]
            assert abs(a["median"] / statistics.median(means) - 1) < 1e-9
        else:
            assert a["verdict"] == "none"


if __name__ == "__main__":
    what, path = sys.argv[1:3]
    if what == "reseal":  # a Python expression that changes d, then a hash that fits
        with open(path, encoding="utf-8") as f:
            d = json.loads(f.read(), parse_float=Spelt)
        exec(sys.argv[3])
        print(sealed(d))
    elif what == "bench":
        check_bench(read(path))
    elif what == "catalog":
        check_catalog(read(path))
    else:
        check_replay(read(path), path)
