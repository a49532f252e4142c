"""Whether a page's tags stand right, each in its own: python3 page.py tags FILE. Or how it lies in a screen: python3 page.py BROWSER FILE WIDTH HEIGHT [dark]. The page is shown in a frame of that size (browsers have a least
width of window, frames have none) by a page that measures it; then a picture is taken. Fails on a page wider than its screen, on boxes that stick out
of it, on labels of axes that lie upon each other, on anything that the page fetched, on anything that its console said, and on a picture with nothing on it."""
import html.parser
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import zlib

MEASURE = """<!doctype html><html><body style="margin:0"><iframe id="f" style="border:0;width:%(w)dpx;height:%(h)dpx;display:block"></iframe><script>
const f = document.getElementById("f");
f.onload = () => {
  const d = f.contentDocument, w = f.contentWindow, wide = d.documentElement.clientWidth;
  const inBox = e => { for (let p = e; p; p = p.parentElement) if (p.classList && p.classList.contains("box")) return true; return false; };
  const out = [...d.body.querySelectorAll("*")].filter(e => !inBox(e) && e.getBoundingClientRect().right > wide + 1 && !e.closest("details:not([open])"));
  const labels = [];
  for (const svg of d.querySelectorAll("svg")) {
    const at = [...svg.querySelectorAll("text.s")].map(e => [e.textContent, e.getBoundingClientRect()]);
    at.forEach(([a, p], i) => at.slice(i + 1).forEach(([b, q]) => {
      if (p.width && Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1 && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 3) labels.push(a + " on " + b);
    }));
  }
  document.title = JSON.stringify({width: d.documentElement.scrollWidth, screen: wide, title: d.title,
    out: out.slice(0, 5).map(e => e.tagName + "." + e.getAttribute("class") + " " + e.textContent.slice(0, 60)), labels: labels.slice(0, 5),
    images: d.images.length, scripts: d.scripts.length, fetched: w.performance.getEntriesByType("resource").map(e => e.name),
    dark: w.matchMedia("(prefers-color-scheme: dark)").matches, paper: w.getComputedStyle(d.body).backgroundColor});
};
f.srcdoc = %(page)s;
</script></body></html>"""


def pixels(path):
    """Width, height and the set of colours of a PNG's rows, by hand: no library is needed for it."""
    with open(path, "rb") as f:
        data = f.read()
    at, body, head = 8, b"", None
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        if kind == b"IHDR":
            head = struct.unpack(">IIBBBBB", data[at + 8 : at + 21])
        if kind == b"IDAT":
            body += data[at + 8 : at + 8 + size]
        at += 12 + size
    return head[0], head[1], len(set(zlib.decompress(body)))


class Tags(html.parser.HTMLParser):
    """Every tag is closed where it was opened, ids are unique, links lead to one, and figures are numbered in order."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.count = [], [], [], {"Table": 0, "Plot": 0}

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br", "wbr", "line", "rect", "circle"):
            self.open.append(tag)
        at = dict(attrs)
        self.ids += [at["id"]] if "id" in at else []
        self.links += [at["href"]] if "href" in at else []

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if tag != "circle":
            assert self.open and self.open[-1] == tag, f"</{tag}> at {self.getpos()} closes {self.open[-3:]}"
            self.open.pop()

    def handle_data(self, data):
        said = re.fullmatch(r"(Table|Plot) (\d+)\.", data)
        if said and self.open[-2:] == ["figcaption", "b"]:
            self.count[said[1]] += 1
            assert int(said[2]) == self.count[said[1]], data


def tags(path):
    with open(path, encoding="utf-8") as f:
        t = Tags()
        t.feed(f.read())
    assert not t.open, f"left open: {t.open}"
    assert len(t.ids) == len(set(t.ids)) and t.links and all(link[1:] in t.ids for link in t.links), (t.ids, t.links)
    assert t.count["Table"] > 3 and t.count["Plot"] > 3, t.count


def main():
    browser, path, width, height = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    dark = "dark" in sys.argv[5:]
    with open(path, encoding="utf-8") as f:
        page = json.dumps(f.read()).replace("<", "\\u003c")
    with tempfile.TemporaryDirectory() as folder:
        frame, picture = os.path.join(folder, "frame.html"), os.path.join(folder, "page.png")
        with open(frame, "w", encoding="utf-8") as f:
            f.write(MEASURE % {"w": width, "h": height, "page": page})
        options = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr", "--disable-dev-shm-usage",
                   "--no-first-run", "--disable-background-networking", f"--user-data-dir={folder}/profile",
                   f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--window-size={max(width, 500)},{height + 150}"]

        def run(*more):
            return subprocess.run([*options, *more, "file://" + frame], capture_output=True, text=True, timeout=90, check=False)

        seen = run("--virtual-time-budget=4000", "--dump-dom")
        told = re.search(r"<title>(.*?)</title>", seen.stdout, re.S)
        assert told, "the page was not shown: " + seen.stderr[-2000:]
        text = told.group(1)
        for name, char in (("lt", "<"), ("gt", ">"), ("quot", '"'), ("amp", "&")):
            text = text.replace(f"&{name};", char)
        found = json.loads(text)
        said = [line for line in seen.stderr.splitlines() if ":CONSOLE" in line]
        assert found["screen"] == width, f"shown on a screen of {found['screen']}"
        assert found["width"] <= width, f"the page is {found['width']} wide, wider than {width}"
        assert not found["out"], f"sticks out: {found['out']}"
        assert not found["labels"], f"labels lie upon each other: {found['labels']}"
        assert not found["fetched"] and not found["images"] and not found["scripts"], f"fetched {found}"
        assert not said, "\n".join(said)
        assert found["dark"] == dark, f"scheme: {found}"
        assert found["paper"] == ("rgb(20, 24, 28)" if dark else "rgb(255, 255, 255)"), found["paper"]
        run(f"--screenshot={picture}")
        wide, high, colours = pixels(picture)
        assert wide >= width and high >= height and colours > 50, f"the picture has {wide}x{high} and {colours} values"
        if os.environ.get("ROWFOLD_PICTURES"):
            keep = os.path.join(os.environ["ROWFOLD_PICTURES"], f"{os.path.basename(path)}-{width}x{height}{'-dark' if dark else ''}.png")
            with open(picture, "rb") as a, open(keep, "wb") as b:
                b.write(a.read())


if __name__ == "__main__":
    try:
        tags(sys.argv[2]) if sys.argv[1] == "tags" else main()
    except AssertionError as e:
        print(e)
        sys.exit(1)
