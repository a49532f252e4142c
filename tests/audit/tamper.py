#!/usr/bin/env python3
"""A genuine record, and copies of it that were tampered with, one way each: the auditor confirms the first and finds every other one,
naming the claim. The tamperer makes anew every hash of content that can be made from the record. usage: tamper.py ROWFOLD AUDITOR FOLDER"""
import copy
import functools
import hashlib
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys

SMALL = """\
kernels/softmax.row softmax rows=6,n=129 f32
kernels/layernorm.row layernorm rows=5,n=70 bf16
kernels/reduce.row argmax rows=8,n=40 f32 pin=V=1,U=1,P=1,acc=1,flight=1,combine=outer,store=plain,prefetch=0,threads=0
kernels/layernorm.row layernorm_plain rows=5,n=71 f32 pin=stat=two-pass,tail=head-shift,stagger=off,hold.x=register
"""
LARGE = "kernels/softmax.row softmax rows=1,n=300000 f32 regimes=resident\n"  # samples are kept of it, and holds are refused
FIGURES = "device.batch.cold,device.batch.resident,end_to_end.single.resident"
SHORT = ["--threads", "1", "--samples", "3", "--sample-ms", "1", "--warmup-ms", "1", "--rotate-mb", "1", "-q"]


# ---- canonical text and hashes, as docs/records.md has them ----
def number(x):
    s = "%.17g" % x
    s = re.sub(r"e([+-]?)0*(\d)", lambda m: "e" + m[1].replace("+", "") + m[2], s)
    return s if re.search(r"[.e]", s) else s + ".0"


@functools.lru_cache(None)  # the same few names and sources stand in every copy
def text(s):
    short = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + re.sub(r'["\\\x00-\x1f]', lambda m: short.get(m[0]) or "\\u%04X" % ord(m[0]), s) + '"'


def canonical(j):
    if isinstance(j, dict):
        return "{" + ",".join(text(k) + ":" + canonical(j[k]) for k in sorted(j, key=lambda k: k.encode())) + "}"
    if isinstance(j, list):
        return "[" + ",".join(map(canonical, j)) + "]"
    if isinstance(j, str):
        return text(j)
    if isinstance(j, bool) or j is None:
        return {True: "true", False: "false", None: "null"}[j]
    return number(j) if isinstance(j, float) else str(j)


def sha(data):
    return hashlib.sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()


def without(j, *keys):
    return {k: v for k, v in j.items() if k not in keys}


def remake(d):
    """Every hash that follows from the record."""
    for catalog in (d["reference"], d["candidate"]):
        for c in catalog["cases"]:
            for part in ("source", "program", "kern"):
                c[part]["sha256"] = sha(c[part]["text"])
            c["case_sha256"] = sha(canonical(without(c, "case_sha256")))
        catalog["hash"] = sha(canonical(without(catalog, "hash")))
    d["hash"] = sha(canonical(without(d, "hash")))


# ---- what a figure's numbers become when its samples change ----
def median(x):
    x = sorted(x)
    n = len(x)
    return x[n // 2] if n % 2 else (x[n // 2 - 1] + x[n // 2]) / 2


def figure_remake(f):
    t = [s / f["calls"] for s in f["samples_total_ns"]]
    f["median_ns"], f["min_ns"], f["max_ns"] = float(median(t)), float(min(t)), float(max(t))


# ---- the table ----
TABLE = []


def tampering(claim, how, catalogs=False, remade=True, large=False):
    def add(f):
        TABLE.append((claim, how, catalogs, remade, large, f))
        return f

    return add


def result(d, control=False):
    return next(r for r in d["results"] if r["control"] == control)


def both(d):
    return d["reference"], d["candidate"]


def figure(d, i=0, name=None):
    return next(f for f in d["measurements"][i]["figures"] if name is None or f["name"] == name)


@tampering("samples", "samples are halved")
def _(d, _):
    f = figure(d)
    f["samples_total_ns"] = [max(1, s // 2) for s in f["samples_total_ns"]]


@tampering("ratios", "samples are halved and their medians made anew")
def _(d, _):
    f = figure(d)
    f["samples_total_ns"] = [max(1, s // 2) for s in f["samples_total_ns"]]
    figure_remake(f)


@tampering("ratios", "calls in a sample are doubled, medians made anew")
def _(d, _):
    f = figure(d, name="device.batch.cold")
    f["calls"] *= 2
    figure_remake(f)


@tampering("coverage", "a sample is left out, medians made anew")
def _(d, _):
    f = figure(d)
    f["samples_total_ns"].pop()
    f["first_set"].pop()
    figure_remake(f)


@tampering("coverage", "how many samples there should be is not said")
def _(d, _):
    d["options"]["samples"] = -1


@tampering("outputs", "an archived output is gone")
def _(d, folder):
    (folder / outputs_of(d, d["reference"]["cases"][0]["id"])[0]["file"]).unlink()


@tampering("options", "cold calls take less than nothing in turn")
def _(d, _):
    d["options"]["rotate_bytes"] = -1


@tampering("options", "samples last no time")
def _(d, _):
    d["options"]["sample_ns"] = 0


@tampering("options", "the figure that is told of first was not taken")
def _(d, _):
    d["options"]["primary"] = "device.single.cold" if "device.single.cold" not in d["options"]["figures"] else "device"


@tampering("options", "the list of peers is none")
def _(d, _):
    d["options"]["peers"] = "all"


@tampering("coverage", "a figure is left out of a measurement")
def _(d, _):
    d["measurements"][1]["figures"].pop(0)


@tampering("regime", "resident and cold figures trade names")
def _(d, _):
    m = d["measurements"][0]["figures"]
    m[0]["name"], m[1]["name"] = m[1]["name"], m[0]["name"]


@tampering("schedule", "the order of a pair is turned round in the schedule")
def _(d, _):
    d["schedule"][0]["order"].reverse()


@tampering("schedule", "a pair's sides trade labels")
def _(d, _):
    a, b = d["measurements"][:2]
    a["side"], b["side"] = b["side"], a["side"]


@tampering("schedule", "two measurements trade cases")
def _(d, _):
    a, b = d["measurements"][0], d["measurements"][2]
    a["case"], b["case"] = b["case"], a["case"]


@tampering("schedule", "two entries of the schedule and their measurements trade places")
def _(d, _):
    s, m = d["schedule"], d["measurements"]
    s[0], s[1] = s[1], s[0]
    m[0:2], m[2:4] = m[2:4], m[0:2]


@tampering("schedule", "peers run on the other side")
def _(d, _):
    d["schedule"][1]["peers_when"] = "before" if d["schedule"][1]["peers_when"] == "after" else "after"


def drop_round(d):
    last = d["options"]["rounds"] - 1
    d["schedule"] = [s for s in d["schedule"] if s["round"] != last]
    d["measurements"] = [m for m in d["measurements"] if m["round"] != last]
    d["sittings"][-1]["measurements"] -= 2 * len(d["reference"]["cases"])


@tampering("coverage", "the last round is dropped")
def _(d, _):
    drop_round(d)


@tampering("balance", "the last round is dropped and not asked for")
def _(d, _):
    drop_round(d)
    d["options"]["rounds"] -= 1
    for r in d["results"]:
        r["ratios"].pop()


@tampering("schedule", "a case is trimmed from catalogs, schedule, measurements and results")
def _(d, _):
    gone = d["reference"]["cases"][0]["id"]
    for c in both(d):
        c["cases"].pop(0)
    d["schedule"] = [s for s in d["schedule"] if s["case"] != gone]
    before = len(d["measurements"])
    d["measurements"] = [m for m in d["measurements"] if m["case"] != gone]
    d["sittings"][-1]["measurements"] -= before - len(d["measurements"])
    d["results"] = [r for r in d["results"] if r["case"] != gone]
    for i, m in enumerate(d["measurements"]):
        m["ordinal"], m["position"] = i, i // 2 % len(d["reference"]["cases"])
    for i, s in enumerate(d["schedule"]):
        s["position"] = i % len(d["reference"]["cases"])


@tampering("coverage", "one measurement is dropped")
def _(d, _):
    d["measurements"].pop()


@tampering("fresh", "a measurement of one round stands in another too")
def _(d, _):
    m, n = d["measurements"], len(d["reference"]["cases"])
    a = next(x for x in m if x["round"] == 0 and x["side"] == "candidate")
    b = next(x for x in m if x["round"] == 1 and x["side"] == "candidate" and x["case"] == a["case"])
    assert n
    b["figures"] = copy.deepcopy(a["figures"])


@tampering("fresh", "a process is younger than one before it")
def _(d, _):
    d["measurements"][3]["process"]["started_unix_ns"] = d["measurements"][2]["process"]["started_unix_ns"]


@tampering("fresh", "a kernel came from a cache")
def _(d, _):
    d["measurements"][2]["build"]["from_cache"] = True


@tampering("frozen", "a measurement ran another plan")
def _(d, _):
    d["measurements"][0]["plan"] = d["measurements"][0]["plan"].replace("U=1", "U=2")


@tampering("frozen", "a measurement ran another source")
def _(d, _):
    d["measurements"][0]["unit_sha256"] = sha("another")


@tampering("kern", "a frozen plan has more lanes, hashes made anew")
def _(d, _):
    c = d["candidate"]["cases"][0]
    c["plan"] = c["plan"].replace("W=16 ", "W=32 ")
    for m in d["measurements"]:
        if m["side"] == "candidate" and m["case"] == c["id"]:
            m["plan"] = c["plan"]


@tampering("frozen", "a kern is edited, hashes of the catalog made anew")
def _(d, _):
    k = d["candidate"]["cases"][0]["kern"]
    k["text"] = k["text"].replace("row", "row", 1) + ""
    k["text"] = re.sub(r"\n  %\d+ = op\.sub [^\n]*", "", k["text"], count=1)


@tampering("demand", "a kern is edited, its hashes made anew in the measurements too")
def _(d, _):
    c = d["candidate"]["cases"][0]
    c["kern"]["text"] = re.sub(r"\n  %\d+ = op\.sub [^\n]*", "", c["kern"]["text"], count=1)
    for m in d["measurements"]:
        if m["side"] == "candidate" and m["case"] == c["id"]:
            m["kern_sha256"] = sha(c["kern"]["text"])


@tampering("demand", "the demand reads less")
def _(d, _):
    d["candidate"]["cases"][0]["demand"]["lane"]["global_read"] /= 2


@tampering("demand", "the demand has fewer rounds")
def _(d, _):
    d["candidate"]["cases"][1]["demand"]["lane_rounds"] -= 1


@tampering("demand", "the demand has fewer reductions")
def _(d, _):
    d["candidate"]["cases"][0]["demand"]["reductions"] -= 1


@tampering("score", "the prior score is smaller")
def _(d, _):
    s = next(s for s in d["candidate"]["cases"][0]["scores"] if s["policy"] == "prior")
    s["total"] -= 1


@tampering("score", "a coefficient of the prior score is another, the score made anew")
def _(d, _):
    s = next(s for s in d["candidate"]["cases"][0]["scores"] if s["policy"] == "prior")
    term = {t["name"]: t for t in s["terms"]}
    less = term["setup"]["value"] / 2
    s["coefficients"]["setup"] = 8.0
    for t in ("setup", "program score"):
        term[t]["value"] -= less
    s["total"] -= less * term["waves"]["value"]


@tampering("score", "a score is of another launch")
def _(d, _):
    next(s for s in d["candidate"]["cases"][0]["scores"] if s["policy"] == "prior")["launch"]["rows"] = 1


@tampering("slots", "fewer slots are held than the map gives")
def _(d, _):
    d["candidate"]["cases"][1]["legality"]["stripes_sum_slots"] += 1


@tampering("slots", "the demand holds other slots than the kern")
def _(d, _):
    d["candidate"]["cases"][0]["demand"]["stripe_slots"] += 1


@tampering("budget", "the machine has a larger budget than it says")
def _(d, _):
    d["candidate"]["cases"][0]["legality"]["budget"] *= 2


@tampering("budget", "less is needed than the slots take")
def _(d, _):
    d["candidate"]["cases"][1]["legality"]["need"] += 4


@tampering("budget", "a shifted row's stripe has no room for another step")
def _(d, _):
    d["candidate"]["cases"][3]["legality"]["need"] -= 4 * 16


@tampering("kern", "rows are shifted with a state that is carried on, hashes made anew")
def _(d, _):
    c = d["candidate"]["cases"][3]
    c["plan"] = c["plan"].replace("stat=two-pass", "stat=online")
    c["kern"]["text"] = c["kern"]["text"].replace("stat=two-pass", "stat=online")
    for m in d["measurements"]:
        if m["side"] == "candidate" and m["case"] == c["id"]:
            m["plan"], m["kern_sha256"] = c["plan"], sha(c["kern"]["text"])


@tampering("bounds", "the bound allows for longer chains")
def _(d, _):
    d["candidate"]["cases"][0]["bounds"]["serial"] *= 4


@tampering("bounds", "the bound allows for reciprocals that the plan has not")
def _(d, _):
    b = d["candidate"]["cases"][1]["bounds"]
    b["reciprocal"] = not b["reciprocal"]


@tampering("candidates", "a refused candidate is removed, counts made anew")
def _(d, _):
    c = d["candidate"]["cases"][0]
    c["refusals"].pop(0)
    c["counts"]["candidates"] -= 1
    c["counts"]["refused"] -= 1


@tampering("candidates", "a candidate that was tried is removed, counts made anew")
def _(d, _):
    c = d["candidate"]["cases"][0]
    gone = c["trials"].pop(1)
    c["counts"]["candidates"] -= 1
    c["counts"][gone["fate"]] -= 1


@tampering("refusals", "a stripe is refused that fits", large=True)
def _(d, _):
    for c in d["candidate"]["cases"]:
        for r in c["refusals"]:
            if r["slug"] == "plan.stripe_exceeded":
                r["why"] = re.sub(r"need=\d+", "need=1", r["why"])


@tampering("inputs", "another seed")
def _(d, _):
    for c in both(d):
        c["cases"][0]["inputs"]["seed"] += 1


@tampering("inputs", "another kind of inputs")
def _(d, _):
    for c in both(d):
        c["cases"][0]["inputs"]["fill"] = "uniform"


@tampering("pair", "the candidate solves another problem")
def _(d, _):
    d["candidate"]["cases"][0]["types"] = "bf16"


@tampering("program", "a shape has fewer elements")
def _(d, _):
    for c in both(d):
        c["cases"][0]["shape"]["m"] = 1


@tampering("source", "the kernel's text computes another thing, hashes made anew")
def _(d, _):
    for c in both(d):
        s = c["cases"][0]["source"]
        s["text"] = s["text"].replace("e / sum(e)", "e / max(e)")


@tampering("source", "the program computes another thing, hashes made anew")
def _(d, _):
    for c in both(d):
        p = c["cases"][0]["program"]
        p["text"] = p["text"].replace(" max %", " min %", 1)


@tampering("catalog", "a comment in the kernel's text is another, hashes made anew", catalogs=True)
def _(d, _):
    for c in both(d):
        for case in c["cases"]:
            case["source"]["text"] += "# nothing\n"


@tampering("catalog", "a catalog is another than the one that was kept", catalogs=True)
def _(d, _):
    d["candidate"]["suite"] = "another"


@tampering("catalog", "a digit of a catalog's hash", remade=False)
def _(d, _):
    h = d["candidate"]["hash"]
    d["candidate"]["hash"] = ("0" if h[0] != "0" else "1") + h[1:]
    d["hash"] = sha(canonical(without(d, "hash")))


@tampering("hash", "a digit of the record's hash", remade=False)
def _(d, _):
    d["hash"] = ("0" if d["hash"][0] != "0" else "1") + d["hash"][1:]


@tampering("hash", "anything at all, no hash made anew", remade=False)
def _(d, _):
    d["sittings"][0]["started_unix_s"] += 1


@tampering("provenance", "a program changed while the replay ran")
def _(d, _):
    d["provenance"]["binaries_after"][0]["sha256"] = sha("another")


@tampering("coverage", "sittings add up to more")
def _(d, _):
    d["sittings"][0]["measurements"] += 2


@tampering("checks", "an output was wrong and is called right")
def _(d, _):
    d["measurements"][0]["first_check"]["bad"] = 1


@tampering("checks", "fewer elements were checked")
def _(d, _):
    d["measurements"][0]["last_check"]["checked"] -= 1


@tampering("checks", "an error was beyond its bound")
def _(d, _):
    d["measurements"][0]["last_check"]["worst_error_share"] = 1.5


@tampering("checks", "outputs were not poisoned")
def _(d, _):
    d["measurements"][0]["poison"] = 0


@tampering("checks", "inputs were not kept")
def _(d, _):
    d["measurements"][0]["inputs_unchanged"] = False


@tampering("ceilings", "the speed of light is slower")
def _(d, _):
    light = d["measurements"][0]["speed_of_light_ns"]
    light["resident"] *= 2


@tampering("ratios", "a ratio")
def _(d, _):
    result(d)["ratios"][0] *= 1.5


@tampering("ratios", "a median of ratios")
def _(d, _):
    result(d)["median"] *= 1.2


@tampering("interval", "a bootstrap's end")
def _(d, _):
    result(d)["bootstrap"]["low"] *= 0.9


@tampering("floor", "a lower floor")
def _(d, _):
    for k in d["floors"]:
        d["floors"][k] /= 4


@tampering("verdict", "a verdict")
def _(d, _):
    r = result(d)
    r["verdict"] = "better" if r["verdict"] != "better" else "worse"


@tampering("overall", "the verdict over all")
def _(d, _):
    o = d["overall"]["device.batch.resident"]
    o["verdict"] = "better" if o["verdict"] != "better" else "worse"


@tampering("overall", "the gain over all")
def _(d, _):
    d["overall"]["device.batch.resident"]["median"] *= 1.1


@tampering("controls", "a control is called a case")
def _(d, _):
    result(d, control=True)["control"] = False


@tampering("coverage", "a control's result is removed")
def _(d, _):
    d["results"].remove(result(d, control=True))


@tampering("outputs", "a sample of an output lies elsewhere")
def _(d, _):
    d["measurements"][0]["outputs"][0]["samples"][2]["index"] += 1


@tampering("outputs", "the bits of a sample")
def _(d, _):
    s = d["measurements"][0]["outputs"][0]["samples"][1]
    s["bits"] = ("0" if s["bits"][0] != "0" else "1") + s["bits"][1:]


@tampering("outputs", "one round has other bits, by its hash")
def _(d, _):
    last = [m for m in d["measurements"] if m["case"] == d["measurements"][0]["case"]][-1]
    last["outputs"][0]["sha256"] = sha("another")


def outputs_of(d, case):
    return [m["outputs"][0] for m in d["measurements"] if m["case"] == case]


@tampering("outputs", "a byte of an archived output")
def _(d, folder):
    o = outputs_of(d, d["reference"]["cases"][0]["id"])[0]
    path = folder / o["file"]
    b = bytearray(path.read_bytes())
    b[5] ^= 0x40
    path.write_bytes(b)


def replace_file(d, folder, case, key, change):
    for o in outputs_of(d, case):
        holder = o if key == "file" else o["expect"]
        path = folder / holder["file"]
        data = bytearray(path.read_bytes())
        if holder["sha256"] == sha(bytes(data)):
            change(data)
            name = path.with_name("tampered" + path.suffix)
            name.write_bytes(data)
            holder["file"] = str(name.relative_to(folder))
            holder["sha256"] = sha(bytes(data))


@tampering("values", "a byte of an archived output, hashes made anew")
def _(d, folder):
    def change(b):
        b[4 * 7 + 2] ^= 0x40

    replace_file(d, folder, d["reference"]["cases"][0]["id"], "file", change)


@tampering("archive", "an archived bound is widened, hashes made anew")
def _(d, folder):
    def change(b):
        x = struct.unpack_from("<d", b, 16 * 7 + 8)[0]
        struct.pack_into("<d", b, 16 * 7 + 8, 100 * x)

    replace_file(d, folder, d["reference"]["cases"][0]["id"], "expect", change)


@tampering("archive", "an archived value of the definition, hashes made anew")
def _(d, folder):
    def change(b):
        x = struct.unpack_from("<d", b, 16 * 7)[0]
        struct.pack_into("<d", b, 16 * 7, 1.001 * x)

    replace_file(d, folder, d["reference"]["cases"][0]["id"], "expect", change)


@tampering("archive", "the bound of a sample of a large output is widened", large=True)
def _(d, _):
    for o in outputs_of(d, d["reference"]["cases"][0]["id"]):
        o["samples"][5]["bound"] *= 100


@tampering("values", "a sample of a large output, value and bits", large=True)
def _(d, _):
    for o in outputs_of(d, d["reference"]["cases"][0]["id"]):
        s = o["samples"][5]
        x = struct.unpack("<f", struct.pack("<f", 1.01 * s["value"]))[0]
        s["value"], s["bits"] = x, struct.pack(">f", x).hex()


@tampering("peers", "a peer's measurement is removed")
def _(d, _):
    d["peers"].pop()


@tampering("peers", "a peer's measurement is of another round")
def _(d, _):
    d["peers"][-1]["round"] = 0


@tampering("peers", "a peer is another")
def _(d, _):
    d["peers"][0]["adapter"] = d["peers"][0]["peer"] = "another"


@tampering("samples", "a peer is slower than its samples")
def _(d, _):
    next(p for p in d["peers"] if "figures" in p)["figures"][0]["median_ns"] *= 2


# ---- running ----
count = bad = 0


def told(ok, name, more=""):
    global count, bad
    count += 1
    bad += not ok
    print(f"{'ok' if ok else 'not ok'} {count} - {name}")
    if not ok and more:
        print("# " + more.replace("\n", "\n# "))
    sys.stdout.flush()


def audit(auditor, record, *catalogs):
    run = subprocess.run([auditor, "--json", record, *catalogs], capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1):
        return run.returncode, [], run.stderr
    claims = json.loads(run.stdout)["claims"]
    refuted = [c for c in claims if c["found"] == "refuted"]
    return run.returncode, sorted({c["claim"] for c in refuted}), "\n".join(f"{c['claim']} {c['place']}: {c['detail']}" for c in refuted[:8])


def made(command, what):
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    told(run.returncode == 0, what, run.stdout[-2000:] + run.stderr[-2000:])
    return run.returncode == 0


def frozen_and_replayed(rowfold, folder, cases):
    """Makes reference.json, candidate.json, replay.json and bench.json of a suite of those cases."""
    folder.mkdir()
    suite = folder / "cases.suite"
    root = pathlib.Path.cwd()
    suite.write_text("".join(f"{root}/{line}\n" for line in cases.splitlines()))
    ref, cand = folder / "reference.json", folder / "candidate.json"
    choose = [rowfold, "catalog", "freeze", suite, "--effort", "estimate", "--threads", "1", "-q", "--pin", "W=16"]
    peers = ["--figures", FIGURES, "--peers", "plain_c"]
    return (
        made([*choose, "-o", ref], "a reference is frozen")
        and made([*choose, "--policy", "random", "-o", cand], "a candidate is frozen")
        and made([rowfold, "replay", ref, cand, "-o", folder / "replay.json", "--rounds", "2", *peers, *SHORT], "a replay is recorded")
        and made([rowfold, "bench", suite, "--effort", "estimate", "-o", folder / "bench.json", *SHORT], "a bench is recorded")
    )


def tampered(auditor, genuine, folder, place, entry):
    """A copy of the record in `folder` at `place`, changed as the table says: does the auditor find it?"""
    claim, how, catalogs, remade, _, change = entry
    place.mkdir()
    if (folder / "replay.json.outputs").exists():
        shutil.copytree(folder / "replay.json.outputs", place / "replay.json.outputs")
    d = copy.deepcopy(genuine)
    try:
        change(d, place)
    except (StopIteration, KeyError, IndexError) as e:
        told(False, f"{claim}: {how}", f"the record has nothing to tamper with: {e!r}")
        return
    if remade:
        remake(d)
    path = place / "replay.json"
    path.write_text(canonical(d) + "\n")
    left = {p.name for p in place.rglob("*.bin")}
    changed = d != genuine or left != {p.name for p in folder.glob("replay.json.outputs/*.bin")} or any(p.read_bytes() != (folder / p.relative_to(place)).read_bytes() for p in place.rglob("*.bin"))
    code, names, more = audit(auditor, path, *([folder / "reference.json", folder / "candidate.json"] if catalogs else []))
    told(changed and code == 1 and claim in names, f"{claim}: {how}", f"found: {code} {' '.join(names)}\n{more}")
    shutil.rmtree(place)


def main(rowfold, auditor, folder):
    folder = pathlib.Path(folder)
    ok = True
    for large, cases in ((False, SMALL), (True, LARGE)):
        here = folder / ("large" if large else "small")
        if not frozen_and_replayed(rowfold, here, cases):
            ok = False
            continue
        ref, cand, base = here / "reference.json", here / "candidate.json", here / "replay.json"
        for record, catalogs in ((base, [ref, cand]), (base, []), (here / "bench.json", []), (ref, [])):
            code, names, more = audit(auditor, record, *catalogs)
            told(code == 0, f"{record.name} as it was written is confirmed{' beside its catalogs' if catalogs else ''}", more)
        recorded = base.read_text()
        genuine = json.loads(recorded)
        told(canonical(genuine) + "\n" == recorded, "this script's canonical text is the record's")
        spaced = here / "spaced.json"
        spaced.write_text(json.dumps(genuine, indent=1))
        told("format" in audit(auditor, spaced)[1], "format: blanks in the text")
        alone = here / "alone"
        alone.mkdir()
        shutil.copy(base, alone)
        code, names, more = audit(auditor, alone / base.name)
        told(code == 0 and not names, "a record without the folder of its outputs is judged by the rest", more)
        for i, entry in enumerate(TABLE):
            if entry[4] == large:
                tampered(auditor, genuine, here, folder / f"t{i}", entry)
    print(f"1..{count}")
    return 1 if bad or not ok else 0


sys.exit(main(*sys.argv[1:4]))
