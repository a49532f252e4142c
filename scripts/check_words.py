#!/usr/bin/env python3
"""Words: the repository names no path of one machine, no package host, nothing of how it is worked on, and its README stays under 100
lines. usage: check_words.py [ROOT]"""
import os
import pathlib
import re
import sys

README_MAX = 99
# Each pattern is written so that it does not match itself.
RULES = [
    (r"(?<![\w.}])/wor[k]/", "a path of one machine"),
    (r"(?<![\w.}])/hom[e]/\w", "a path of one machine"),
    (r"(?<![\w.}])/roo[t]/\w", "a path of one machine"),
    (r"(?<![\w.}])/User[s]/\w", "a path of one machine"),
    (r"\b(py[p]i\.org|pythonhoste[d]\.org|deb\.debia[n]\.org|archive\.ubunt[u]\.com|npmj[s]\.org|crate[s]\.io|proxy\.golan[g]\.org"
     r"|huggingfac[e]\.co|conda\.anacond[a]\.org|rubygem[s]\.org)\b", "a package host"),
    (r"\b(artifactor[y]|nexus-[\w]+\.\w+|devp[i])\b", "a package host"),
    (r"--(extra-)?index-ur[l]|--trusted-hos[t]", "a package host"),
    (r"(?i)\bworkplac[e]\b|\bissue[s]? ?#?\d+\b|\bthis sessio[n]\b|\bhelper agen[t]|\bthe sessio[n]'s\b", "how it is worked on"),
]
# In the tests a scratch folder may be spelled out; elsewhere it comes from TMPDIR.
TMP = (r"(?<![\w.}])/tm[p]/", "a fixed scratch folder")
SKIP_DIRS = re.compile(r"^(\.git|build.*|\.cache|__pycache__)$")


def files(root):
    for folder, dirs, names in os.walk(root):
        dirs[:] = sorted(d for d in dirs if not SKIP_DIRS.match(d) and not (folder == str(root) and d == "corpus"))
        for name in sorted(names):
            if name == ".git":  # of a second worktree, where it is a file
                continue
            path = pathlib.Path(folder) / name
            if path.is_file() and not path.is_symlink():
                yield path


def main(root):
    wrong = []
    rules = [(re.compile(pattern), what) for pattern, what in RULES]
    tmp = (re.compile(TMP[0]), TMP[1])
    for path in files(root):
        data = path.read_bytes()
        if b"\0" in data:
            continue
        name = path.relative_to(root)
        mine = rules if name.parts[0] == "tests" else rules + [tmp]
        for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
            for pattern, what in mine:
                found = pattern.search(line)
                if found:
                    wrong.append(f"{name}:{number}: {what}: {found.group(0)}")
    readme = root / "README.md"
    if not readme.is_file():
        wrong.append("README.md: missing")
    elif len(readme.read_text().splitlines()) > README_MAX:
        wrong.append(f"README.md: {len(readme.read_text().splitlines())} lines; the most is {README_MAX}")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()))
