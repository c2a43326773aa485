"""The picture of a model: what is drawn against the table of the policy, and its places by their coordinates."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import numc
from html_pages import CHROMIUM, FAULTS, Page, laid_out
from numc.cli import cli
from numc.studies.model_graph.arrange import ASIDE, Size, arrange
from numc.studies.model_graph.model_graph import ModelGraph
from numc.studies.model_graph.nodes import INPUT, OUTPUT, Node
from numc.studies.model_graph.picture import middle, picture
from numc.studies.model_graph.repeats import Repeat, repeats
from tiers import by_default

pytest.importorskip("jinja2")
ROOT = Path(__file__).parents[2]
CNN = ROOT / "examples/digits/cnn.onnx"
TRANSFORMER = ROOT / "examples/models/transformer.onnx"


@pytest.fixture(scope="module")
def transformer() -> ModelGraph:
    return numc.graph(TRANSFORMER, fma="mp")


def test_the_layers_and_the_edges_of_a_network() -> None:
    graph = numc.graph(CNN, fma="bf16_1_1")
    names = ["x", "node_conv2d", "node_relu", "node_conv2d_1", "node_relu_1", "node_max_pool2d", "node_conv2d_2"]
    names += ["node_relu_2", "node_linear", "node_relu_3", "node_linear_1", "logits"]
    assert [node.name for node in graph.nodes] == names
    assert graph.edges == tuple((n, n + 1) for n in range(len(names) - 1))
    first, relu, linear = graph.nodes[1], graph.nodes[2], graph.nodes[8]
    assert (first.word, first.operators, first.shape) == ("conv", ("bf16_1_1",), (None, 16, 8, 8))
    assert first.weights == (("conv1.weight", (16, 1, 3, 3)),)
    assert first.fmas == 8 * 8 * 16 * 9
    assert (relu.operators, relu.rows, relu.contracts, linear.contracts) == ((), (), False, True)
    assert {name for name, _ in linear.weights} == {"fc1.weight", "fc1.bias"}
    assert (graph.nodes[0].word, graph.nodes[-1].word, graph.nodes[-1].shape) == (INPUT, OUTPUT, (None, 10))
    assert "node_conv2d_2" in graph._repr_html_()


@pytest.mark.parametrize("model", [TRANSFORMER, ROOT / "examples/models/lstm.onnx", ROOT / "examples/models/gru.onnx"])
def test_every_row_of_the_policy_is_in_one_node(model: Path) -> None:
    """The lstm has several products of one name; its layers depend on one another in no circle."""
    graph, table = numc.graph(model, fma="mp"), numc.explain(str(model), fma="mp")
    drawn = Counter(row["position"] for node in graph.nodes for row in node.rows if row["position"] is not None)
    assert drawn == Counter(row["position"] for row in table.layers if row["position"] is not None)
    assert {row["layer"] for row in table.layers} == {node.name for node in graph.layers if node.rows}
    assert all(start < end for start, end in graph.edges)
    assert {n for edge in graph.edges for n in edge} == set(range(len(graph.nodes)))


@pytest.mark.all
def test_a_name_that_comes_again_behind_others_is_another_node() -> None:
    """The module `twice` runs before and behind the convolution: as one node it would be in a circle."""
    torch = pytest.importorskip("torch")

    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.twice, self.between = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.twice(self.between(self.twice(x)) + 1) + x

    exported = torch.export.export(Twice().eval(), (torch.ones(2, 8),))
    graph = numc.graph(exported)
    assert all(start < end for start, end in graph.edges)
    names = [node.name for node in graph.nodes]
    source, last = names.index("x"), graph.edges[-1][0]
    assert (source, last) in graph.edges, "the sum takes the input"
    assert sum(node.contracts for node in graph.nodes) == 3


def crossed(line: tuple[tuple[float, float], ...], box: tuple[float, float, float, float]) -> bool:
    """Whether a line is inside of a box: bends are between rows, so that pieces that go straight down are enough."""
    x0, y0, x1, y1 = box
    pieces = ((a, b) for a, b in itertools.pairwise(line) if a[0] == b[0])
    return any(x0 < a[0] < x1 and max(a[1], y0) < min(b[1], y1) - 1e-6 for a, b in pieces)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_boxes_are_apart_and_lines_go_around_them(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 14))
    pairs = [(a, b) for b in range(count) for a in range(b)]
    edges = sorted(data.draw(st.sets(st.sampled_from(pairs), max_size=2 * count))) if pairs else []
    sizes = [Size(float(data.draw(st.integers(40, 300))), float(data.draw(st.integers(20, 200)))) for _ in range(count)]
    arranged = arrange(sizes, edges)
    boxes = [(x, y, x + s.width, y + s.height) for (x, y), s in zip(arranged.corners, sizes, strict=True)]
    for a, b in itertools.combinations(boxes, 2):
        assert a[2] <= b[0] + 1e-6 or b[2] <= a[0] + 1e-6 or a[3] <= b[1] or b[3] <= a[1]
    assert [(line.start, line.end) for line in arranged.lines] == edges
    for line in arranged.lines:
        start, end = boxes[line.start], boxes[line.end]
        assert line.points[0] == pytest.approx(((start[0] + start[2]) / 2, start[3]))
        assert line.points[-1] == pytest.approx(((end[0] + end[2]) / 2, end[1]))
        assert all(a[1] <= b[1] for a, b in itertools.pairwise(line.points))
        others = [box for n, box in enumerate(boxes) if n not in (line.start, line.end)]
        assert not any(crossed(line.points, box) for box in others)
    assert min(x for x, *_ in boxes) >= -1e-6
    assert max(box[2] for box in boxes) <= arranged.width + 1e-6
    assert max(box[3] for box in boxes) <= arranged.height + 1e-6
    assert arrange(sizes, edges) == arranged


def test_a_line_that_passes_rows_is_straight() -> None:
    arranged = arrange([Size(100.0, 50.0)] * 5, [(0, 1), (0, 4), (1, 2), (2, 3), (3, 4)])
    (around,) = (line for line in arranged.lines if line.end == 4 and line.start == 0)
    assert len({x for x, _ in around.points[2:-1]}) == 1
    assert abs(around.points[2][0] - 50.0) >= 50.0 + ASIDE / 2


def chain(words: str, extra: tuple[tuple[int, int], ...] = ()) -> tuple[list[Node], list[tuple[int, int]]]:
    nodes = [Node(name=f"{word}{n}", word=word) for n, word in enumerate(words)]
    return nodes, sorted([*((n, n + 1) for n in range(len(words) - 1)), *extra])


def test_blocks_that_repeat() -> None:
    assert repeats(*chain("xabcabcabcy")) == (Repeat(1, 3, 3),)
    assert repeats(*chain("xababy")) == (), "two nodes less are not worth a frame"
    assert repeats(*chain("xababababcdcdcdcdcdy")) == (Repeat(1, 2, 4), Repeat(9, 2, 5))
    # A residual: blocks begin where one line enters, and not two, though the run of equal nodes begins earlier.
    nodes, edges = chain("xscdscdscdscdsy", tuple((n, n + 3) for n in range(1, 13, 3)))
    assert repeats(nodes, edges) == (Repeat(2, 3, 4),)
    # Of the last block, another node takes from the first: it is not built alike.
    assert repeats(*chain("xabcabcabcabcy", ((10, 12),))) == (Repeat(1, 3, 3),)
    assert Repeat(1, 3, 4).copies(2) == (2, 5, 8, 11)


def test_a_picture_with_blocks_once_has_every_layer_once(transformer: ModelGraph) -> None:
    folded = repeats(transformer.nodes, transformer.edges)
    assert [(each.length, each.count) for each in folded] == [(21, 2)]
    drawn = picture(transformer.nodes, transformer.edges, folded)
    assert sorted(n for box in drawn.boxes for n in box.nodes) == list(range(len(transformer.nodes)))
    assert len(drawn.boxes) == len(transformer.nodes) - 21
    (frame,) = drawn.frames
    for box in drawn.boxes:
        inside = frame.x < box.x and box.x + box.width < frame.x + frame.width
        inside &= frame.y < box.y and box.y + box.height < frame.y + frame.height
        apart = box.y + box.height <= frame.y or box.y >= frame.y + frame.height
        assert inside == (len(box.nodes) == 2)
        assert inside != apart
    # Lines inside are those of the first block; what leaves it is joined with its border.
    first = range(frame.repeat.first, frame.repeat.first + frame.repeat.length)
    joined = {(arrow.start, arrow.end) for arrow in drawn.arrows if None not in (arrow.start, arrow.end)}
    assert {edge for edge in joined if edge[0] in first} == {
        (a, b) for a, b in transformer.edges if a in first and b in first
    }
    entering = {b for a, b in transformer.edges if a not in first and b in first}
    assert {arrow.end for arrow in drawn.arrows if arrow.start is None and arrow.end in first} == entering


def test_the_page_has_every_layer_and_every_edge(transformer: ModelGraph, tmp_path: Path) -> None:
    transformer.write(tmp_path / "x.html")
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    page = Page(text)
    page.check_alone(text, scripts=2)
    folded, every = re.findall(r'<svg class="graph".*?</svg>', text, re.DOTALL)
    numbers = [
        [int(n) for box in re.findall(r'data-nodes="([\d ]+)"', svg) for n in box.split()] for svg in (folded, every)
    ]
    assert sorted(numbers[0]) == sorted(numbers[1]) == list(range(len(transformer.nodes)))
    joined = {(int(a), int(b)) for a, b in re.findall(r'data-from="(\d+)" data-to="(\d+)"', every)}
    assert joined == set(transformer.edges)
    (facts,) = re.findall(r'id="data">(.*?)</script>', text, re.DOTALL)
    told = json.loads(facts)
    assert [each["name"] for each in told] == [node.name for node in transformer.nodes]
    assert ["contraction", "? * (16 × 192 × 64) in mp; other operations in fp32"] in told[2]["facts"]
    assert "2 blocks of 21 layers that are built alike" in "".join(page.texts)
    assert "by-error" not in "".join(str(attributes.get("id")) for _, attributes in page.tags)


def test_names_are_no_markup(tmp_path: Path) -> None:
    bad = "</script><b>&"
    nodes = (Node(name=bad, word=INPUT, shape=(2,), dtype="f32"), Node(name=bad, word="conv", shape=(2,)))
    ModelGraph(model=bad, policy=bad, nodes=nodes, edges=((0, 1),)).write(tmp_path / "x.html")
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    Page(text).check_alone(text, scripts=2)
    assert "<b>" not in text
    assert text.count("</script>") == 2
    assert len({middle("layers.0.attention.query.weights"), middle("layers.0.attention.query.weightt")}) == 2
    assert len(middle("x" * 99)) == 26


@pytest.fixture(scope="module")
def measured() -> ModelGraph:
    images = np.load(ROOT / "examples/digits/heldout.npz")["images"][:8]
    return numc.graph(CNN, images, fma="fmac(e4m3)", threads=1)


def test_errors_and_times(measured: ModelGraph) -> None:
    images = np.load(ROOT / "examples/digits/heldout.npz")["images"][:8]
    programs = [numc.compile(CNN, fma=fma) for fma in ("fp32", "fmac(e4m3)")]
    layers = {layer.name: layer.difference.relative for layer in numc.diff(*programs, {"x": images}).layers}
    assert {node.name: node.error for node in measured.nodes if node.error is not None} == layers
    assert len(layers) == 5
    assert measured.run is not None
    assert (measured.run.samples, measured.run.threads, measured.run.random) == (8, 1, False)
    times = [node.seconds for node in measured.nodes if node.seconds is not None]
    assert 0 < sum(times) <= measured.run.seconds * 1.001
    assert all(node.seconds is not None for node in measured.nodes if node.contracts)
    assert measured.nodes[1].fmas == 8 * 8 * 8 * 16 * 9


def test_on_the_command_line(tmp_path: Path) -> None:
    page = tmp_path / "x.html"
    call = ["explain", str(CNN), "--fma", "mp", "--graph", str(page)]
    done = CliRunner().invoke(cli, [*call, "--no-run"])
    assert done.exit_code == 0
    assert f"wrote {page}" in done.stderr.splitlines()
    assert "node_conv2d_2\tconv" in done.stdout
    assert "It was not run" in page.read_text(encoding="utf-8")
    assert CliRunner().invoke(cli, [*call, "--batch", "3", "--threads", "1"]).exit_code == 0
    assert "a run on 3 random samples" in " ".join(page.read_text(encoding="utf-8").split())
    for options, message in (
        ([*call, "--schedule"], "--schedule prints a table of its own: leave --graph out, or --schedule"),
        ([*call, "--sensitivity"], "--sensitivity prints a table of its own: leave --graph out"),
        ([*call, "--labels", "x.npy"], "--labels is about a sensitivity: ask for one with --sensitivity"),
        (["explain", str(CNN), "--no-run"], "--no-run is about a graph: ask for one with --graph"),
        ([*call[:-1], str(tmp_path / "none" / "x.html")], "x.html: cannot write: there is no folder "),
        ([*call, "--data", str(tmp_path / "none.npy")], "none.npy: cannot read: No such file"),
    ):
        done = CliRunner().invoke(cli, options)
        assert done.exit_code != 0
        assert message in str(done.exception) + done.stderr, (options, done.exception)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on the PATH")
@pytest.mark.parametrize("width", by_default([500, 1280], [500]))
def test_in_a_browser_a_layer_shows_its_facts(
    measured: ModelGraph, transformer: ModelGraph, tmp_path: Path, width: int
) -> None:
    """No text covers another one, the colours change, and the script shows, finds and resizes."""
    measured.write(tmp_path / "x.html")
    select = "(() => { inner.querySelectorAll('.node')[1].dispatchEvent(new Event('click')); return null; })()"
    look = f"""[{FAULTS}, {select}, inner.querySelector('#facts').innerText, (() => {{
      inner.getElementById('by-error').click();
      const values = [...inner.querySelectorAll('.value.error')].filter(e => e.getClientRects().length);
      const svg = inner.querySelector('svg.graph'), before = svg.getBoundingClientRect().width;
      inner.getElementById('larger').click();
      const grew = svg.getBoundingClientRect().width > before * 1.2;
      return [values.length, grew, inner.querySelectorAll('.edge.on').length];
    }})(), {FAULTS}]"""
    for scheme in (0, 1):
        seen = laid_out(tmp_path / "x.html", tmp_path, width, scheme, look)
        assert seen[:2] == [width, []]
        faults, _, facts, (values, grew, lit), again = seen[3]
        assert faults == again == []
        assert "node_conv2d" in facts
        assert "conv1.weight 16 × 1 × 3 × 3" in facts
        assert (values, grew, lit) == (5, True, 2)
    transformer.write(tmp_path / "y.html")
    seen = laid_out(tmp_path / "y.html", tmp_path, width, 1, FAULTS)
    assert (seen[:2], seen[3]) == ([width, []], [])
