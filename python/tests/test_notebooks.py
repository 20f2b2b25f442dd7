"""The notebooks of docs/notebooks: their cells run, in order, and draw."""

import ast
import json

import pytest
from conftest import REPOSITORY

NOTEBOOKS = sorted((REPOSITORY / "docs" / "notebooks").glob("*.ipynb"))


def cells(path):
    """The code of each cell, the last expression as a statement of its own."""
    notebook = json.loads(path.read_text())
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], f"{path.name}: commit it without outputs"
            yield number, "".join(cell["source"])


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["hold", "score", "train"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    if path.stem == "train":
        pytest.importorskip("onnxruntime")  # which the exported controller needs
    matplotlib.use("agg")
    from matplotlib import pyplot

    monkeypatch.chdir(tmp_path)
    pyplot.close("all")
    names = {"__name__": "__main__"}
    for number, code in cells(path):
        exec(compile(ast.parse(code), f"{path.name}, cell {number}", "exec"), names)
    drawn = [axes for n in pyplot.get_fignums() for axes in pyplot.figure(n).axes]
    assert drawn
    assert all(axes.has_data() and axes.get_xlabel() and axes.get_ylabel() for axes in drawn)
    pyplot.close("all")
