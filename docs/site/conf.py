"""Sphinx' configuration of the site. `make site` calls it with the pages copied beside it."""

import re
from pathlib import Path

import lockstep

project = "Lockstep"
author = copyright = "The Lockstep authors"
version = release = lockstep.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"Lockstep {version}"
html_static_path = []
html_show_sphinx = False

# Notebooks are executed when the site is made; one that fails fails it.
nb_execution_mode = "force"
nb_execution_timeout = 600
nb_execution_raise_on_error = True

myst_heading_anchors = 4
# Attributes of several classes have one name.
suppress_warnings = ["myst.header", "ref.python"]

autodoc_default_options = {"members": True, "show-inheritance": True, "member-order": "bysource"}
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_class_signature = "mixed"
autodoc_mock_imports = ["ray", "stable_baselines3"]
napoleon_google_docstring = False
napoleon_use_ivar = True

HERE = Path(__file__).parent
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:)([^)#\s]+)(#[^)\s]*)?\)")


def plain_links(app, docname, source):
    """Links to files and folders of the repository, which are no pages of the site, become text."""
    folder = Path(docname).parent

    def link(match):
        there = (HERE / folder / match[2]).resolve()
        page = there.suffix in (".md", ".ipynb") and there.is_file()
        return match[0] if page else match[1]

    source[0] = LINK.sub(link, source[0])


SEVERAL = re.compile(r"(\w+(?:, \w+)+) : (.*)")


def single_names(app, what, name, obj, options, lines):
    """Attributes that are described together get an entry each: napoleon has one name in one."""
    if "Attributes" not in lines:
        return
    split, names, kind, told = [], [], "", []
    for line in [*lines, ""]:
        if names and line.startswith(" "):
            told.append(line)
            continue
        for one in names:
            split += [f"{one} : {kind}", *told]
        match, names, told = SEVERAL.fullmatch(line), [], []
        if match:
            names, kind = match[1].split(", "), match[2]
        else:
            split.append(line)
    lines[:] = split


def setup(app):
    """Have Sphinx call them."""
    app.connect("source-read", plain_links)
    app.connect("autodoc-process-docstring", single_names, priority=400)  # before napoleon
