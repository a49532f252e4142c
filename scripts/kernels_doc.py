#!/usr/bin/env python3
"""Kernel library: kernels/*.row -> docs/kernels.md, a table a family. Every file opens with a comment line of what the family is, every
kernel has one comment line of what it is. usage: kernels_doc.py [--check] [ROOT]; --check writes nothing and fails when the page is not
what it would write."""
import pathlib
import re
import sys

# The families in the order in which they are read; others follow by name.
ORDER = ["softmax", "rmsnorm", "layernorm", "groupnorm", "normalize", "reduce", "cross_entropy", "compare", "quantize"]
HEAD = """# The kernel library

Made from `kernels/*.row` by `python3 scripts/kernels_doc.py`; do not edit. Each file is one family, and every kernel in it is checked
against the definition at many shapes, types and plans by `tests/laws/test_kernels.c`. *Rows* are the axes of which every combination is
one row; `T` and `S` are types bound when compiling. `docs/language.md` says what the texts mean.

```
rowfold run kernels/softmax.row softmax --shape rows=4,n=1000 --type f32
```
"""
KERNEL = re.compile(r"^kernel (\w+)(?: for ([\w, ]+?))? \((.*?)\) \{", re.DOTALL | re.MULTILINE)
PARAM = re.compile(r"(\w+)\s*:\s*(?:(inout|in|out|const)\s+)?([^,\[\s]+(?:\[[^\]]*\])?)(?:\s*=\s*([^\s,]+))?")


def cell(text):
    return text.replace("|", "\\|")


def family(path, wrong):
    text = path.read_text()
    lines = text.splitlines()
    if not lines or not lines[0].startswith("# ") or len(lines) < 2 or lines[1]:
        wrong.append(f"{path.name}:1: a file opens with one comment line of what its family is, and an empty line")
    out = [f"\n## {path.stem}\n", lines[0].lstrip("# ") + "\n", "| kernel | rows | tensors | scalars | what it is |", "|---|---|---|---|---|"]
    count = 0
    for found in KERNEL.finditer(text):
        name, rows, params = found.groups()
        at = text.count("\n", 0, found.start())
        if not lines[at - 1].startswith("# ") or (at >= 2 and lines[at - 2]):
            wrong.append(f"{path.name}:{at + 1}: kernel {name} has not exactly one comment line above it")
            continue
        tensors, scalars = [], []
        for word, way, kind, default in PARAM.findall(params):
            if "[" in kind:
                tensors.append(f"{way} {word}: {kind}")
            else:
                scalars.append(f"{way + ' ' if way else ''}{word}: {kind}" + (f" = {default}" if default else ""))
        count += 1
        out.append("| " + " | ".join(cell(x) for x in (
            f"`{name}`", f"`{rows}`" if rows else "", ", ".join(f"`{t}`" for t in tensors), ", ".join(f"`{s}`" for s in scalars),
            lines[at - 1][2:])) + " |")
    if count != len(re.findall(r"^\s*kernel\b", text, re.MULTILINE)):
        wrong.append(f"{path.name}: not every kernel begins as `kernel NAME for ROWS (...) {{`")
    return out, count


def main(args):
    check = "--check" in args
    rest = [a for a in args if a != "--check"]
    root = pathlib.Path(rest[0] if rest else pathlib.Path(__file__).parent.parent).resolve()
    wrong, body, total = [], [], 0
    files = sorted((root / "kernels").glob("*.row"), key=lambda p: (ORDER.index(p.stem) if p.stem in ORDER else len(ORDER), p.stem))
    for path in files:
        lines, count = family(path, wrong)
        body += lines
        total += count
    if not total:
        wrong.append("kernels/: no kernel")
    text = HEAD + f"\n{total} kernels in {len(files)} files.\n" + "\n".join(body) + "\n"
    page = root / "docs" / "kernels.md"
    if wrong:
        pass
    elif not check:
        page.write_text(text)
    elif not page.is_file() or page.read_text() != text:
        wrong.append("docs/kernels.md: not up to date; run python3 scripts/kernels_doc.py")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
