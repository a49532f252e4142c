#!/usr/bin/env python3
"""Results of all suites -> one last line `N passed, N failed[, N skipped]`; exit code 1 when anything failed.

usage: count_tests.py FOLDER, which holds testlog.json files of Meson (*.json) and TAP files (*.tap). A test program that prints TAP
counts with each of its cases; one that does not, or that ends badly although each case it printed passed (a crash, a leak), counts
once for itself. A plan (1..N) with fewer cases than promised counts the rest as failed."""
import json
import pathlib
import re
import sys

CASE = re.compile(r"^(not ok|ok)\b\s*\d*\s*-?\s*(.*)$")
PLAN = re.compile(r"^1\.\.(\d+)\s*$")
CMOCKA_SKIP = re.compile(r"^not ok \d+ # SKIP \S+$")  # how cmocka writes a skipped test
SKIP = re.compile(r"#\s*skip\b\s*(.*)", re.IGNORECASE)


def read_tap(text):
    """-> (passed, failed names, skipped names with their reasons)"""
    passed, failed, skipped, planned = 0, [], [], 0
    for line in text.splitlines():
        plan = PLAN.match(line)
        case = CASE.match(line)
        if plan:
            planned += int(plan.group(1))
        elif case:
            skip = SKIP.search(line)
            if CMOCKA_SKIP.match(line):  # the test has printed its reason
                skipped.append(skip.group(1).strip())
            elif case.group(1) == "not ok":
                failed.append(case.group(2))
            elif skip:
                skipped.append(case.group(2).strip())
            else:
                passed += 1
    lost = planned - (passed + len(failed) + len(skipped))
    failed += [f"case {i + 1} of {lost} that did not run" for i in range(max(lost, 0))]
    return passed, failed, skipped


def read_program(row):
    """One line of testlog.json -> the same."""
    passed, failed, skipped = read_tap(row.get("stdout") or "")
    good = row["result"] in ("OK", "EXPECTEDFAIL")
    if row["result"] == "SKIP":
        if not skipped:
            skipped.append("whole program")
    elif good and not (passed or failed or skipped):
        passed = 1
    elif not good and not failed:
        failed.append(f"ended as {row['result']}, exit {row.get('returncode')}")
    return passed, failed, skipped


def main(folder):
    totals, programs = [0, 0, 0], 0
    for path in sorted(pathlib.Path(folder).iterdir()):
        if path.suffix == ".tap":
            results = [(path.stem, read_tap(path.read_text()))]
        elif path.suffix == ".json":
            rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
            results = [(f"{path.stem}: {row['name']}", read_program(row)) for row in rows]
        else:
            continue
        for name, (passed, failed, skipped) in results:
            programs += 1
            totals[0] += passed
            totals[1] += len(failed)
            totals[2] += len(skipped)
            for what in failed:
                print(f"FAILED  {name}: {what}")
            for what in skipped:
                print(f"skipped {name}: {what}")
    if not programs:
        print(f"FAILED  no results in {folder}")
        totals[1] += 1
    print(f"{totals[0]} passed, {totals[1]} failed" + (f", {totals[2]} skipped" if totals[2] else ""))
    return 1 if totals[1] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
