#!/usr/bin/env python3
"""Helps docs/build: Doxygen does not read Markdown as GitHub does.

prepare OUT: copies the documents to OUT as Doxygen reads them, and prints their names in the order in
which they are to be read. Each heading gets the name that GitHub gives it, preceded by that of its
page, and links go to these names. A program that is linked to becomes a page. Other links to files
that are not part of the site become plain text.

index OUT: the search finds sections of the documents and names of Python too, by each of their words.
Doxygen's own index has names of C++ and titles of pages. OUT has `pages` and `html`.

check HTML: each link within the site, and of its search, has to lead to a file and a place that are there. Prints the
others; exit status 1 if there are any.
"""

import html
import html.parser
import json
import pathlib
import re
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


# The documents in the order in which they are to be read, under the headings of README's last table.
PARTS = {
    "Guide": [
        "docs/install.md",
        "docs/python.md",
        "docs/guide/cpp.md",
        "docs/guide/*.md",
        "docs/processes.md",
        "docs/scale.md",
        "examples/*/*.md",
    ],
    "Migrate": ["docs/migrate/*.md"],
    "Evidence": [
        f"docs/{name}.md" for name in ("performance", "records", "verification", "features")
    ],
    "Internals": ["docs/*.md", "*.md"],
}
PROGRAMS = {".py": "py", ".cpp": "cpp"}


def documents():
    """The heading of each document; None for those that stand above the others."""
    headings = {ROOT / "README.md": None, ROOT / "docs/concepts.md": None}
    for heading, patterns in PARTS.items():
        for path in (path for pattern in patterns for path in sorted(ROOT.glob(pattern))):
            headings.setdefault(path, heading)
    return headings


def page_name(path):
    return "doc-" + re.sub(r"\W", "-", path.relative_to(ROOT).with_suffix("").as_posix())


def plain(heading):
    return re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading)


def slug(heading):
    return re.sub(r"[^\w\- ]", "", plain(heading).lower()).replace(" ", "-")


def link(path, pages, programs, match):
    image, text, target = match.groups()
    if re.match(r"[a-z]+:", target):
        return match[0]
    if image:
        return f"![{text}]({pathlib.Path(target).name})"
    file, _, place = target.partition("#")
    there = (path.parent / file).resolve() if file else path
    if there.suffix in PROGRAMS and there.is_file():
        programs[there] = None
    if there in pages or there in programs:
        return f"[{text}](@ref {page_name(there)}{'-' + place if place else ''})"
    if not there.exists():
        sys.exit(f"{path.relative_to(ROOT)}: the link to {target} leads nowhere")
    return text


def prepare(out):
    pages, programs = documents(), {}
    for path in pages:
        names, lines, code = set(), [], False
        for line in path.read_text(encoding="utf-8").splitlines():
            code ^= line.startswith("```")
            heading = re.match(r"(#+) (.*)", line)
            if heading and not code:
                name = page_name(path) + ("" if len(heading[1]) == 1 else "-" + slug(heading[2]))
                if len(heading[1]) == 1:
                    line = line.replace("`", "")  # The list of pages shows titles as they are.
                if name not in names:
                    line = f"{line} {{#{name}}}"
                names.add(name)
            elif not code:
                line = LINK.sub(lambda match: link(path, pages, programs, match), line)
            lines.append(line)
        write(out, path, lines)
    for path in programs:
        source = path.read_text(encoding="utf-8").rstrip("\n")
        fence = f"```{{.{PROGRAMS[path.suffix]}}}"
        write(out, path, [f"# {path.name} {{#{page_name(path)}}}", "", fence, source, "```"])
    for heading in [*PARTS, "Programs"]:
        listed = programs if heading == "Programs" else (p for p in pages if pages[p] == heading)
        below = [f"- @subpage {page_name(path)}" for path in listed]
        write(out, ROOT / f"{heading}.md", [f"# {heading} {{#part-{heading}}}", "", *below])


def write(out, path, lines):
    copy = out / path.relative_to(ROOT)
    copy = copy if copy.suffix == ".md" else copy.with_name(copy.name + ".md")
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(copy.relative_to(ROOT))


def index(out):
    search = out / "html/search"
    letters = re.search(r'0: "(.*)"', (search / "searchdata.js").read_text("utf-8"))[1]
    rows = {letter: [] for letter in letters}
    for page in sorted((out / "pages").rglob("*.md")):
        headings = re.findall(r"^#+ (.*) {#(\S+)}$", page.read_text("utf-8"), re.M)
        (title, name), *sections = headings
        file = "index" if page.parent == out / "pages" and page.name == "README.md" else name
        for heading, place in sections:
            label = html.escape(plain(heading))
            for word in re.finditer(r"\w{3,}", label.lower()):
                key = re.sub(
                    r"[^a-z0-9]", lambda c: f"_{ord(c[0]):02x}", word.string[word.start() :]
                )
                to = [f"../{file}.html#{place}", 1, title]
                rows.get(key[0], []).append(json.dumps([f"{key}_{place}", [label, to]]))
    for number, letter in enumerate(letters):
        names = search / f"all_{number:x}.js"
        text = names.read_text("utf-8").rstrip().removesuffix("];").rstrip()
        names.write_text(",\n  ".join([text, *rows[letter]]) + "\n];\n", encoding="utf-8")


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.places, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (tag == "a" and name == "name"):
                self.places.add(value)
            elif name in ("href", "src", "data") and value:
                self.links.append(value)


def check(site):
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    for path in site.glob("search/all_*.js"):
        pages[path] = Page("")
        pages[path].links = re.findall(r"""['"](\.\./[^'"]+)['"]""", path.read_text("utf-8"))
    broken = set()
    for path, page in pages.items():
        for target in page.links:
            file, _, place = urllib.parse.unquote(target).partition("#")
            # Doxygen links to a list of nested classes also where all of them are private.
            if re.match(r"[a-z]+:", target) or target == "#nested-classes":
                continue
            there = (path.parent / file).resolve() if file else path
            if not there.exists() or (
                place and there in pages and place not in pages[there].places
            ):
                broken.add(f"{path.relative_to(site)}: {target}")
    print("\n".join(sorted(broken)), end="\n" if broken else "")
    print(f"{len(pages)} pages, {len(broken)} broken links")
    return 1 if broken or not pages else 0


if __name__ == "__main__":
    sys.exit(
        {"prepare": prepare, "index": index, "check": check}[sys.argv[1]](
            pathlib.Path(sys.argv[2]).resolve()
        )
    )
