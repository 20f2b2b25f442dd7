"""Make the documentation site: all pages of the repository, the notebooks, and the API's reference.

    python docs/site/make.py build/site

Needs docs/site/requirements.txt, the package with its extra [test], and no network.
"""

import importlib
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import lockstep

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]

# Whose import wants a package that not everybody has; the site is made without these.
MOCKED = ("ray", "sb3")


def modules():
    """The package's public modules."""
    files = Path(lockstep.__path__[0]).glob("[!_]*.py")
    return sorted(file.stem for file in files)


def public(name):
    """A module's public names, as its source says."""
    source = (Path(lockstep.__path__[0]) / f"{name}.py").read_text()
    listed = re.search(r"^__all__ = \[(.*?)\]", source, re.MULTILINE | re.DOTALL)
    return re.findall(r'"(\w+)"', listed[1]) if listed else []


def constants(name):
    """A module's public names that are neither classes nor functions."""
    if name in MOCKED:
        return []
    module = importlib.import_module(f"lockstep.{name}")
    return [
        n
        for n in public(name)
        if not inspect.isroutine(kind := getattr(module, n)) and not inspect.isclass(kind)
    ]


def reference():
    """The page of the reference: the names that the package itself has, then modules."""
    lines = ["API", "===", ""]
    for name in ["", *modules()]:
        title = f"lockstep.{name}".rstrip(".")
        lines += [title, "-" * len(title), ""]
        if name:
            # Constants, which have no docstrings, would be left out.
            again = [n for n in public(name) if n in lockstep.__all__]
            data = [n for n in constants(name) if n not in again]
            lines += [f".. automodule:: lockstep.{name}"]
            lines += [f"   :exclude-members: {', '.join(again + data)}"] if again + data else []
            lines += ["", *(f".. autodata:: lockstep.{name}.{n}" for n in data), ""]
            continue
        for top in lockstep.__all__:
            if not top.startswith("_"):
                kind = "class" if inspect.isclass(getattr(lockstep, top)) else "function"
                lines += [f".. auto{kind}:: lockstep.{top}", ""]
    return "\n".join(lines)


def pages():
    """Pages of the repository, and what they show."""
    listed = subprocess.run(
        ["git", "ls-files", "*.md", "*.svg", "*.png", "docs/notebooks/*.ipynb"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return [p for p in listed.stdout.split() if "testdata" not in p]


def missing(html):
    """What of the package's public names the reference does not have."""
    anchors = set(re.findall(r'id="(lockstep\.[\w.]+)"', html.read_text()))
    wanted = [f"lockstep.{name}" for name in lockstep.__all__ if not name.startswith("_")]
    for name in modules():
        if name not in MOCKED:
            importlib.import_module(f"lockstep.{name}")
        theirs = [n for n in public(name) if n not in lockstep.__all__]
        wanted += [f"lockstep.{name}.{n}" for n in theirs]
    return [name for name in wanted if name not in anchors]


def outside(folder):
    """What pages would load from elsewhere."""
    loads = re.compile(
        r'<(?:script|img|iframe)[^>]*\bsrc="https?:[^"]+|<link[^>]*\bhref="https?:[^"]+'
    )
    return {
        f"{page.relative_to(folder)}: {match[0]}"
        for page in folder.rglob("*.html")
        for match in loads.finditer(page.read_text())
    }


def main(out):
    """Make it, and look whether it is whole."""
    source, html = out / "source", out / "html"
    shutil.rmtree(source, ignore_errors=True)
    shutil.rmtree(html, ignore_errors=True)
    for page in pages():
        (source / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / page, source / page)
    for mine in ("conf.py", "index.rst"):
        shutil.copy(HERE / mine, source)
    (source / "api.rst").write_text(reference())
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", source, html]
    if subprocess.run(build, check=False).returncode:
        return "the pages have faults: see above"
    faults = [f"not in the reference: {name}" for name in missing(html / "api.html")]
    faults += [f"loaded from elsewhere: {what}" for what in sorted(outside(html))]
    return "\n".join(faults) or 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
