#!/usr/bin/env python3
"""Slugs: fails on a slug that no test mentions (by text or by id), on one that nothing in src raises, on one used in src that the
table lacks, on two rows of one text or id. usage: check_slugs.py [ROOT]"""
import pathlib
import re
import sys

ROW = re.compile(r'^\s*SLUG\(\s*(S_\w+)\s*,\s*"([^"]+)"', re.MULTILINE)
USE = re.compile(r"\bS_[A-Z][A-Z0-9_]*\b")
# Names of <sys/stat.h> that look like ours.
POSIX = re.compile(r"S_I(F[A-Z]+|S[A-Z]+|[RWX](USR|GRP|OTH|WX[UGO])|RWX[UGO])$")


def main(root):
    table = root / "src" / "base" / "slugs.def"
    rows = ROW.findall(table.read_text())
    wrong = []
    if not rows:
        wrong.append("no rows in src/base/slugs.def")
    for what, column in (("id", 0), ("text", 1)):
        seen = set()
        for row in rows:
            if row[column] in seen:
                wrong.append(f"{row[column]}: two rows of this {what}")
            seen.add(row[column])
    ids = {row[0] for row in rows}
    used = {}
    for path in sorted((root / "src").rglob("*")):
        if path.suffix in (".c", ".h", ".def") and path != table:
            for name in USE.findall(path.read_text(errors="replace")):
                used.setdefault(name, path)
    for name, path in used.items():
        if name not in ids and not POSIX.match(name):
            wrong.append(f"{path.relative_to(root)}: {name} is not in src/base/slugs.def")
    tests = "\n".join(p.read_text(errors="replace") for p in sorted((root / "tests").rglob("*"))
                      if p.is_file() and p.suffix in (".c", ".h", ".sh", ".py", ".txt", ".row", ".json", ".def"))
    words = set(re.findall(r"[\w.]+", tests))
    words |= {word.rstrip(".") for word in words}
    for name, text in rows:
        if name not in words and text not in words:
            wrong.append(f"{name} ({text}): no test mentions it")
        if name not in used:
            wrong.append(f"{name} ({text}): nothing in src raises it")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()))
