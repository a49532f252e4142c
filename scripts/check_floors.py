#!/usr/bin/env python3
"""The shape of the source tree: fails on an include that goes up, on a file over 800 lines, on two files of one name, on a file that
no meson.build lists. usage: check_floors.py [ROOT]"""
import pathlib
import re
import sys

# Folder -> floor. An include may go to a lower floor or stay in its folder.
FLOORS = {
    "base": 0,
    "ir": 1, "target": 1,
    "lang": 2, "pass": 2, "oracle": 2, "cost": 2, "rt": 2,
    "plan": 3,
    "gen": 4,
    "audit": 5, "bench": 5, "store": 5,
    "search": 6,
    "drive": 7,
    "api": 8,
}
# The one step along a floor: target/ describes machines for programs of ir/.
SIDEWAYS = {("target", "ir")}
MAX_LINES = 800
# What the command and the examples may include in <>: the C library and POSIX, so that nothing of ours but rowfold.h comes in.
SYSTEM = set("""assert ctype dirent errno fcntl fenv float getopt inttypes libgen limits locale math poll pthread setjmp signal
stdarg stdatomic stdbool stddef stdint stdio stdlib string strings termios time unistd wchar
sys/ioctl sys/mman sys/resource sys/stat sys/time sys/types sys/wait""".split())
INCLUDE = re.compile(r"^\s*#\s*include\b\s*(.*)$")
QUOTED = re.compile(r'^"([^"]+)"')
ANGLED = re.compile(r"^<([^>]+)>")


def includes(path):
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        found = INCLUDE.match(line)
        if found:
            yield number, found.group(1)


def check_include_src(root, path, what):
    """What is wrong with an include of a file in src, or None."""
    if ANGLED.match(what):
        return "the public header is for api alone" if "rowfold.h" in what and folder_of(root, path) != "api" else None
    quoted = QUOTED.match(what)
    if not quoted:
        return "an include must name its file"
    target = (path.parent / quoted.group(1)).resolve()
    if not target.is_file():
        return "no such file beside this one"
    mine, theirs = folder_of(root, path), folder_of(root, target)
    if target == root / "include" / "rowfold.h":
        return None if mine == "api" else "the public header is for api alone"
    if theirs is None:
        return "outside src"
    if theirs == mine or (mine, theirs) in SIDEWAYS or FLOORS[theirs] < FLOORS[mine]:
        return None
    return f"{mine} is floor {FLOORS[mine]}, {theirs} is floor {FLOORS[theirs]}: an include goes down"


def folder_of(root, path):
    try:
        parts = path.relative_to(root / "src").parts
    except ValueError:
        return None
    return parts[0] if len(parts) > 1 and parts[0] in FLOORS else None


def check_include_outside(root, path, what):
    """The same for cli, examples and the public header, which see include/rowfold.h and their own files."""
    angled, quoted = ANGLED.match(what), QUOTED.match(what)
    if angled:
        name = angled.group(1)
        if name == "rowfold.h" or (name.endswith(".h") and name[:-2] in SYSTEM):
            return None
        return f"<{name}> is neither rowfold.h nor a header of C or POSIX"
    if not quoted:
        return "an include must name its file"
    target = (path.parent / quoted.group(1)).resolve()
    if quoted.group(1) == "rowfold.h" or target == root / "include" / "rowfold.h" or (target.is_file() and target.parent == path.parent):
        return None
    return f'"{quoted.group(1)}" is neither rowfold.h nor a file of this folder'


def check_include_tools(path, what):
    """Tools judge the library and share nothing with it: files of their own folder, C, and jansson."""
    angled, quoted = ANGLED.match(what), QUOTED.match(what)
    if angled and angled.group(1)[:-2] in SYSTEM | {"jansson"}:
        return None
    target = (path.parent / quoted.group(1)).resolve() if quoted else None
    if target and target.is_file() and target.parent == path.parent:
        return None
    return "a tool includes nothing of the library"


def main(root):
    root = root.resolve()
    wrong, names = [], {}

    def complain(path, number, text):
        wrong.append(f"{path.relative_to(root)}:{number}: {text}")

    sources = sorted(p for p in (root / "src").rglob("*") if p.suffix in (".c", ".h", ".def"))
    outside = sorted(p for d in ("cli", "examples", "include") for p in (root / d).rglob("*") if p.suffix in (".c", ".h", ".def"))
    tools = sorted(p for p in (root / "tools").rglob("*") if p.suffix in (".c", ".h"))
    tests = sorted(p for p in (root / "tests").rglob("*") if p.suffix in (".c", ".h"))
    for path in sources + outside + tools + tests:
        lines = len(path.read_bytes().splitlines())
        if lines > MAX_LINES:
            complain(path, lines, f"{lines} lines; the most is {MAX_LINES}: this is two files")
    for path in sources:
        if folder_of(root, path) is None:
            complain(path, 1, "not in a folder of the floor table")
            continue
        if path.name in names:
            complain(path, 1, f"same name as {names[path.name].relative_to(root)}")
        names.setdefault(path.name, path)
        for number, what in includes(path):
            text = check_include_src(root, path, what)
            if text:
                complain(path, number, text)
    for path in outside:
        for number, what in includes(path):
            text = check_include_outside(root, path, what)
            if text:
                complain(path, number, text)
    for path in tools:
        if path.suffix == ".c" and f"'{path.name}'" not in (path.parent / "meson.build").read_text():
            complain(path, 1, "not listed in the meson.build beside it")
        for number, what in includes(path):
            text = check_include_tools(path, what)
            if text:
                complain(path, number, text)
    # A file that is not listed is a file that no build and no test sees.
    for folder in ("src", "cli", "examples", "tests"):
        listing = root / folder / "meson.build"
        text = listing.read_text() if listing.is_file() else ""
        for path in sources + outside + tests:
            if path.suffix != ".c" or path.relative_to(root).parts[0] != folder:
                continue
            name = path.relative_to(root / folder).as_posix()
            short = path.stem.removeprefix("test_").removeprefix("fuzz_")
            if folder in ("src", "cli") and f"'{name}'" not in text:
                complain(path, 1, f"not listed in {folder}/meson.build")
            elif folder in ("examples", "tests") and not re.search(rf"'({re.escape(short)}|{re.escape(name)})'", text):
                # A project of its own, with its own build file, is built by a script.
                if path.parent == root / "tests" / "cli" / "install":
                    continue
                complain(path, 1, f"not listed in {folder}/meson.build")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)))
