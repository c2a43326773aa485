"""What each part of an operator does to a model: the rows beside runs of their policies, the page, bad input."""

from __future__ import annotations

import json

import numpy as np
import pytest

import numc
from definitions import undone
from html_pages import Page
from numc.numerics.grammar import parse_fma
from numc.numerics.policy.layer import Layer
from numc.numerics.policy.text import parse_policy
from numc.studies.sensitivity.changes import accumulators, changes, operands
from rooms import ROOT

MLP = ROOT / "examples" / "digits" / "mlp.onnx"
OPERATOR = "fmac(e4m3)"


@pytest.fixture(scope="module")
def digits():
    held_out = np.load(ROOT / "examples" / "digits" / "heldout.npz")
    return held_out["images"][:40], held_out["labels"][:40]


@pytest.fixture(scope="module")
def outcome(digits):
    images, labels = digits
    return numc.sensitivity(MLP, images, fma=OPERATOR, labels=labels, widths=(3, 7))


@pytest.mark.all
def test_each_row_is_a_run_of_its_policy(outcome, digits):
    images, labels = digits
    parts = {(part.what, part.name): part for part in outcome.parts}
    assert [what for what, _ in parts] == ["all", *["layer"] * 3, *["operand"] * 3, *["accumulator"] * 2]
    exact = numc.compile(MLP)(images).astype(np.float64)
    chosen = [("all", "everything"), ("layer", "node_linear_1"), ("operand", "a"), ("accumulator", "e4m7")]
    for key in chosen:
        logits = numc.compile(MLP, policy=parts[key].policy)(images)
        assert parts[key].error == pytest.approx(((logits - exact) ** 2).sum() / (exact**2).sum(), rel=1e-9)
        assert parts[key].metrics["top1"] == (logits.argmax(1) == labels).mean()
    assert parts["accumulator", "e4m3"].error == parts["all", "everything"].error
    assert sum(part.share for part in outcome.of("layer")) == pytest.approx(1)
    assert json.loads(json.dumps(outcome.as_json()))["fma"] == "fma(a=e4m3,acc=e4m3)"


@pytest.mark.all
def test_the_page_and_the_charts(outcome, tmp_path):
    outcome.write_report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    page = Page(text)
    page.check_alone(text)
    assert {"node_linear_1", "a and b", "e4m7"} <= {text.strip() for text in page.texts}
    names = {path.name for path in outcome.write_plots(tmp_path / "plots")}
    assert {"layers-error.svg", "layers-top1.png", "accumulator-error.png"} <= names


def test_parts_of_operators():
    assert list(operands(parse_fma("mxfp8"))) == ["a", "b", "a and b"]
    assert operands(parse_fma("fma(a=fp32,b=bf16,acc=bf16)")) == {
        "b": "fma(a=fp32,b=bf16,acc=fp32)",
        "a and b": "fma(a=fp32,b=bf16,acc=fp32)",
    }
    assert accumulators(parse_fma("mxfp8"), (7, 23)) == {"fp32": "fma(a=mxfp8_e4m3,acc=fp32)"}
    assert list(accumulators(parse_fma("hopper_bf16"), (7,))) == ["bf16:rtz"]
    assert accumulators(parse_fma("fma(a=fp16,acc=fixed(8,8))"), (7,)) == {}


def test_the_rest_of_the_model_is_fp32():
    """hfp8_fwd, which `fma(a=e4m3,acc=fp32)` is, names a format, too: alone in a rule it would round all operations.

    The version in the name of a format of the user's is part of the rule, and no comment.
    """
    layers = [Layer(name, ("matmul",), position=n) for n, name in enumerate(("first", "second"))]
    with undone():
        own = parse_fma(f"fma(a={numc.format_of([0.0, 1.0, -1.0], name='signs')},acc=fp16)")
        for change in (*changes(parse_fma(OPERATOR), layers, (3, 7)), *changes(own, layers, (3,))):
            fma, ops = parse_policy(change.policy).default
            assert str(ops) == "fp32", change
            assert (str(fma) == "fp32") == (change.what == "layer"), change


@pytest.mark.parametrize("widths", [(0,), (24,), 7])
def test_wrong_widths_are_a_line(digits, widths):
    with pytest.raises(numc.NumcError, match=r"^(a width of widths: got \d+, want .*1.*23|widths: .*want a sequence)"):
        numc.sensitivity(MLP, digits[0], fma=OPERATOR, widths=widths)
