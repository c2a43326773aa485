"""Policies: what a text means, what is wrong with it, which layers its rules are about, and what a program says."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import numc
from arithmetic_vectorised import first_mismatch
from numc.compiler import pipeline
from numc.compiler.options import Options
from numc.compiler.programs import compile as compiling
from numc.frontends.imported import Argument, Imported
from numc.frontends.load import load_file
from numc.numerics import reference
from numc.numerics.grammar import parse_fma
from numc.numerics.operators import FMAS
from numc.numerics.policy.layer import Layer, kinds_of
from numc.numerics.policy.load import arithmetic, load_policy
from numc.numerics.policy.policy import Policy, plain
from numc.numerics.policy.presets import PRESETS
from numc.numerics.policy.text import parse_policy
from numc.support.errors import CompilerBug, NumcError, ParseError
from tiers import by_default

CNN = Path(__file__).parents[2] / "examples" / "digits" / "cnn.onnx"
MIXED = """\
# mixed.policy
format act   = e4m3fn
fma    acc2  = fma(a=bf16, b=bf16, acc=bf16x2)

default                      fma = bf16_1_1, ops = fp32
layer "conv1", "fc*"         fma = mp                     # names or paths, globs
layer 0..2, -1               fma = fp32                   # by position among contractions
op softmax, batch_norm       fp32
op matmul where k > 2048     fma = acc2                   # by shape
role dgrad, wgrad            a = act:rtz, b = bf16
role update                  fp32
"""


def conv(name: str, position: int, m: int | None = 64, n: int = 8, k: int = 9, role: str = "forward") -> Layer:
    return Layer(name, ("conv",), role, False, position, (("m", m), ("n", n), ("k", k)))


def matmul(name: str, position: int, m: int | None = 4, n: int = 10, k: int = 64, role: str = "forward") -> Layer:
    return Layer(name, ("matmul", "gemm"), role, False, position, (("m", m), ("n", n), ("k", k)))


def other(name: str, kind: str, role: str = "forward") -> Layer:
    return Layer(name, kinds_of(kind), role)


def decided(text: str, layers: list[Layer]) -> list[tuple[str, str]]:
    return [(str(d.fma), str(d.ops)) for d in parse_policy(text).decide(layers)]


def test_the_policy_of_the_documentation() -> None:
    layers = [
        conv("conv1", 0), conv("conv2", 1), conv("conv3", 2), conv("conv4", 3), matmul("fc1", 4, k=4096),
        matmul("fc2", 5), matmul("fc3", 6), other("bn", "BatchNormalization"), other("relu", "Relu"),
        other("soft", "Softmax"), conv("conv4/dgrad", 7, role="dgrad"), conv("conv4/wgrad", 8, role="wgrad"),
        other("step", "aten.add.Tensor", "update"),
    ]  # fmt: skip
    decisions = parse_policy(MIXED).decide(layers)
    assert [(d.layer.name, str(d.fma), d.rule and d.rule.line) for d in decisions if d.layer.position is not None] == [
        ("conv1", "fp32", 7), ("conv2", "fp32", 7), ("conv3", "fp32", 7), ("conv4", "bf16_1_1", 5),
        ("fc1", "bf16_1_2", 9), ("fc2", "mp", 6), ("fc3", "mp", 6),
        ("conv4/dgrad", "fma(a=e4m3fn:rtz,b=bf16,acc=bf16)", 10),
        ("conv4/wgrad", "fma(a=e4m3fn:rtz,b=bf16,acc=fp32)", 10),
    ]  # fmt: skip
    assert {d.layer.name: d.rule and d.rule.line for d in decisions if d.layer.position is None} == {
        "bn": 8, "relu": 5, "soft": 8, "step": 11
    }  # fmt: skip


def test_later_rules_win_and_change_only_what_they_say() -> None:
    layers = [matmul("a", 0), matmul("b", 1)]
    assert decided('default fma = mp, ops = bf16\nlayer "a" ops = fp16\nlayer "*" fma = bf16_1_1', layers) == [
        ("bf16_1_1", "fp16"), ("bf16_1_1", "bf16")
    ]  # fmt: skip
    assert decided('layer "a" mp\nlayer "*" bf16', layers) == [("mp", "bf16"), ("fp32", "bf16")]
    assert decided('default mp\nlayer "a" fp32', layers) == [("fp32", "fp32"), ("mp", "fp32")]
    assert decided("", layers) == [("fp32", "fp32")] * 2


def test_operands_alone_keep_the_rest_of_the_operator() -> None:
    one = [matmul("a", 0)]
    assert decided("default bf16_2_2\ndefault a = bf16", one)[0][0] == "fma(a=bf16,b=bf16x2,acc=bf16x2)"
    assert parse_fma(decided("default bf16_2_2\ndefault a = bf16", one)[0][0]).products == 2
    assert decided("default bf16_1_1\nrole forward acc = fp32", one)[0][0] == "mp"
    serial = "fma(a=bfp(16,3,4),b=bfp(16,3,{}),acc=fp32,datapath=fmac2)"
    (fewer, _), *_ = decided(f"default {serial.format(4)}\ndefault b = bfp(16,3,2)", one)
    assert (fewer, parse_fma(fewer).products) == (serial.format(2), 2)
    assert decided("default mac(fp16)\ndefault a = bf16", one)[0][0] == "fma(a=bf16,b=fp16,acc=fp16,product=fp16)"


def test_the_gradient_is_the_first_operand_wherever_it_is() -> None:
    swapped = Layer("w", ("conv",), "wgrad", True, 0, (("m", 1),))
    assert decided("role wgrad fma = fma(a=e5m2, b=e4m3, acc=fp32)", [swapped])[0][0] == "fma(a=e4m3,b=e5m2,acc=fp32)"


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("k > 64", "b"), ("k >= 64", "ab"), ("k == 64", "a"), ("k != 64", "b"), ("k < 65 or n <= 2", "ab"),
        ("m < 5 and n > 5", "a"), ("m > 3 and (n > 5 or k == 9)", "a"), ("m > 3 and n > 5 or k == 128", "ab"),
    ],
)  # fmt: skip
def test_conditions(condition: str, names: str) -> None:
    layers = [matmul("a", 0, 4, 10, 64), matmul("b", 1, 4, 2, 128)]
    found = decided(f"op matmul where {condition} mp", layers)
    assert "".join(layer.name for layer, (fma, _) in zip(layers, found, strict=True) if fma == "mp") == names


def test_a_free_size_is_an_error_only_where_it_matters() -> None:
    free = [matmul("fc", 0, m=None)]
    assert decided("op matmul where m > 8 or k > 9 mp", free)[0][0] == "mp"
    assert decided("default mp\nop matmul where k > 9 fp32\nop matmul where n > 9 mp", free)[0][0] == "mp"
    with pytest.raises(
        NumcError, match="^p:1: 'fc' has a free m, which 'op matmul where m > 8 and k > 9 mp' asks for: fi"
    ):
        parse_policy("op matmul where m > 8 and k > 9 mp", "p").decide(free)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ('layer "conv_1" mp', "layer \"conv_1\" matches nothing in this model (did you mean 'conv1'?): its layers are "
         "conv1, fc, act"),
        ('layer "fc", "x*" mp', 'layer "x*" matches nothing in this model: its layers are conv1, fc, act'),
        ("layer 2 mp", "layer 2 matches nothing: the model has contractions 0 to 1"),
        ("layer -3 mp", "layer -3 matches nothing: the model has contractions 0 to 1"),
        ("layer 0..2 mp", "layer 0..2 reaches beyond the model, which has contractions 0 to 1"),
        ("layer -3..1 mp", "layer -3..1 reaches beyond the model, which has contractions 0 to 1"),
        ("op softmax mp", "op softmax matches nothing in this model: it has conv, matmul, gemm, relu"),
        ("op sofmax mp", "op sofmax matches nothing in this model (did you mean 'softmax'?): it has conv, matmul, "
         "gemm, relu"),
        ("op matmul where k > 4096 mp", "'op matmul where k > 4096' matches nothing: no matmul has such sizes"),
        ("op relu where k > 1 mp", "'op relu where k > 1' matches nothing: no relu has such sizes"),
    ],
)  # fmt: skip
def test_rules_that_match_nothing(rule: str, message: str) -> None:
    layers = [conv("conv1", 0), matmul("fc", 1), other("act", "Relu")]
    with pytest.raises(NumcError) as caught:
        parse_policy(f"\n\ndefault mp\n{rule}\n", "mine").decide(layers)
    assert str(caught.value) == f"mine:4: {message}"


def test_roles_of_training_may_be_absent_from_a_model_that_is_not_trained() -> None:
    assert decided("role dgrad, update mp", [matmul("a", 0)]) == [("fp32", "fp32")]
    with pytest.raises(NumcError, match="^policy:1: role update matches nothing in this model: it has forward, dgrad$"):
        decided("role update mp", [matmul("a", 0), matmul("b", 1, role="dgrad")])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("op softmax,, relu fp32", "policy:1: found ',', want a name\n  op softmax,, relu fp32\n             ^"),
        ("\nlayr \"x\" mp", "policy:2: found 'layr' (did you mean 'layer'?), want format, fma, default, layer, op or "
         'role\n  layr "x" mp\n  ^'),
        ("default fma =  # nothing", "policy:1: found the end of the line, want a format or an operator, a name\n"
         "  default fma =  # nothing\n               ^"),
        ("default = 3; op conv mp", "policy:1: found '=', want a format or an operator, a name\n"
         "  default = 3; op conv mp\n          ^"),
        ("op conv; default mp", "policy:1: found ';', want ',', a format or an operator, a name, where\n"
         "  op conv; default mp\n         ^"),
        ("op matmul where k 5 mp", "policy:1: found '5', want < <= > >= == or !=\n  op matmul where k 5 mp\n"
         "                    ^"),
        ("\tlayer \"x\tmp",
         "policy:1: found '\"', want a name in \"quotes\", a number, first or last\n  \tlayer \"x\tmp\n"
         "  \t      ^"),
    ],
)  # fmt: skip
def test_what_cannot_be_parsed_shows_the_line_and_the_place(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_policy(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("default fam = mp", "policy:1: unknown setting 'fam' (did you mean 'fma'?): want fma, ops, a, b, acc, bias"),
        ("default bias = lost", "policy:1: bias = lost: got 'lost' (did you mean 'last'?), want first or last"),
        ("default fma = mp, fma = mp", "policy:1: 'fma' is given twice, keep one of them"),
        ("role wgard mp", "policy:1: unknown role 'wgard' (did you mean 'wgrad' or 'forward'?): want forward, dgrad, "),
        ("op matmul where l > 4 mp", "policy:1: unknown size 'l': want m, n, k, those of an m x k by k x n product"),
        ("layer 3..1 mp", "policy:1: layer 3..1: the first comes after the last, want 1..3"),
        ("format bf16 = e4m3", "policy:1: 'bf16' is the name of something else already: want another name"),
        ("format x = e4m3\n\nfma x = mp", "policy:3: 'x' is defined twice, keep one of them"),
        ("format x = e4m33", "policy:1: format 'e4m33': 33 significand bits, want 0 to 23"),
        ("fma x = e4m3", "policy:1: 'e4m3' is a format, not an FMA operator: want fmac(e4m3) or fma(a=e4m3, acc=...)"),
        ("default mp\ndefault fma = bf61_1_1", "policy:2: unknown FMA operator 'bf61_1_1' (did you mean 'bf16_1_1'"),
        ("default ops = mp", "policy:1: unknown format 'mp'"),
        ("default bf61", "policy:1: unknown FMA operator 'bf61'"),
        ("default e4m3:rxx", "policy:1: unknown rounding 'rxx' of 'e4m3'"),
        ("default e4m33", "policy:1: format 'e4m33': 33 significand bits"),
        ("default fma(a=bf16,b=q,acc=fp32)", "policy:1: unknown format 'q'"),
    ],
)  # fmt: skip
def test_wrong_words_are_one_line_with_their_place(text: str, message: str) -> None:
    with pytest.raises(NumcError) as caught:
        parse_policy(text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


names = st.sampled_from(["conv1", "fc*", "layer.0/bmm", "a b", "?[12]", "#1"])
values = st.sampled_from([*FMAS, "fma(a=bf16, b = e4m3fn:rtz,acc=fp32)", "fmac( e6m9 , chunk=8)", "act2", "bf16_3_3"])
formats = st.sampled_from(["bf16", "e4m3fn:rtz:nan", "1/6/9/n", "act"])
settings = st.one_of(
    values, formats, values.map("fma = {}".format), st.tuples(values, formats).map("fma={0[0]},ops = {0[1]}".format),
    st.tuples(formats, formats).map("a = {0[0]}, acc = {0[1]}".format),
)  # fmt: skip
comparisons = st.tuples(
    st.sampled_from("mnk"), st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), st.integers(0, 9999)
)
conditions = st.recursive(
    comparisons.map("{0[0]}{0[1]} {0[2]}".format),
    lambda inner: st.tuples(inner, st.sampled_from(["and", "or"]), inner).map("({0[0]}) {0[1]} ({0[2]})".format),
    max_leaves=5,
)
spans = st.one_of(
    st.integers(-9, 9).map(str), st.tuples(st.integers(0, 5), st.integers(5, 9)).map("{0[0]}..{0[1]}".format)
)
places = st.lists(st.one_of(names.map('"{}"'.format), spans), min_size=1, max_size=3).map(", ".join)
kinds = st.lists(st.sampled_from(["softmax", "matmul", "fma", "a", "default"]), min_size=1, max_size=3).map(" , ".join)
roles = st.lists(st.sampled_from(["forward", "dgrad", "update"]), min_size=1, max_size=2).map(",".join)
lines = st.one_of(
    settings.map("default {}".format),
    st.tuples(places, settings).map("layer {0[0]} {0[1]}".format),
    st.tuples(kinds, settings).map("op {0[0]} {0[1]}".format),
    st.tuples(kinds, conditions, settings).map("op {0[0]} where {0[1]} {0[2]}".format),
    st.tuples(roles, settings).map("role {0[0]} {0[1]}".format),
    st.sampled_from(["", "# a comment", "   "]),
)


@given(st.lists(lines, max_size=6))
def test_a_policy_prints_itself_back(rules: list[str]) -> None:
    text = "\n".join(["format act = e5m2", "fma act2 = fma(a=act,acc = fp32)", *rules])
    policy = parse_policy(text)
    again = parse_policy(str(policy))
    assert again == policy
    assert str(again) == str(policy)
    assert len(policy.rules) == sum(bool(rule.split("#")[0].strip()) for rule in rules if not rule.startswith("#"))


def test_the_printed_policy_of_the_documentation() -> None:
    assert str(parse_policy(MIXED)).splitlines()[2:9] == [
        "default fma = bf16_1_1, ops = fp32",
        'layer "conv1", "fc*" fma = mp',
        "layer 0..2, -1 fma = fp32",
        "op softmax, batch_norm fp32",
        "op matmul where k > 2048 fma = acc2",
        "role dgrad, wgrad a = act:rtz, b = bf16",
        "role update fp32",
    ]


def test_where_policies_come_from(tmp_path: Path) -> None:
    file = tmp_path / "mixed.policy"
    file.write_text(MIXED)
    assert load_policy(file) == load_policy(str(file)) == load_policy(MIXED) == parse_policy(MIXED)
    assert (
        parse_policy("default mp; role update fp32;\nop conv bf16").rules
        == parse_policy("default mp\nrole update fp32\n\nop conv bf16").rules
    )
    assert load_policy("default mp") == parse_policy("default mp")
    for name in PRESETS:
        assert load_policy(name) == arithmetic(name).policy() == parse_policy(str(arithmetic(name).policy()))
    with pytest.raises(
        NumcError, match="^policy 'hpf8': No such file or directory .did you mean 'hfp8'.*: want a file, "
    ):
        load_policy("hpf8")
    with pytest.raises(NumcError, match=f"^policy '{tmp_path}': Is a directory: want a file"):
        load_policy(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NumcError, match="not a text: want a file"):
        load_policy(tmp_path / "binary")
    (tmp_path / "marked").write_text("default mp\n", encoding="utf-8-sig")  # as editors on Windows do
    assert load_policy(tmp_path / "marked") == parse_policy("default mp")
    for text in ("", "# nothing\n"):
        (tmp_path / "empty").write_text(text)
        with pytest.raises(NumcError, match="empty': has no rule in it: want a file, the text of a policy"):
            load_policy(tmp_path / "empty")
    for text in ("", " "):
        with pytest.raises(NumcError, match=f"^policy '{text}': has no rule in it"):
            load_policy(text)
    with pytest.raises(NumcError, match="^policy 'bf16_1_1': .*the operator would be 'default fma = bf16_1_1'"):
        load_policy("bf16_1_1")


def test_options_are_policies() -> None:
    assert Options(fma="bf16_3_3", ops="bf16").resolved()[0] == plain("bf16_3_3{9}", "bf16")
    assert str(plain("mp")) == "default fma = mp, ops = fp32\n"
    with pytest.raises(NumcError, match="^a policy says what every operation computes in: leave fma and ops out"):
        numc.compile(CNN, fma="mp", policy="default mp")


@pytest.mark.parametrize(
    ("text", "draws", "results"),
    [
        ("default fma = mp, ops = bf16", False, False),
        ("default fma = fmac(e6m9:sr8), ops = e6m9", True, False),
        ("default mp\nop add ops = bf16:sr8", True, True),
        ("format f = bf16:sr8\ndefault f", True, True),
    ],
)
def test_what_is_rounded_stochastically(text: str, draws: bool, results: bool) -> None:
    policy = parse_policy(text, "p")
    assert (policy.draws, policy.draws_results) == (draws, results)


@pytest.mark.parametrize(
    ("text", "repeats"),
    [
        ("default mp", True),
        ("default fma = fmac(e6m9:sr8)", False),
        ("default mp\nrole dgrad fma = fmac(e6m9:sr8)", False),
        ("default mp\nlayer 0 fma = bf16_1_1", False),
    ],
)
def test_products_that_have_the_same_bits_again(text: str, repeats: bool) -> None:
    assert parse_policy(text, "p").repeats_products is repeats


def test_operators_of_onnx_and_pytorch_have_the_same_words() -> None:
    assert kinds_of("BatchNormalization")[0] == kinds_of("aten._native_batch_norm_legit_no_training.default")[0]
    assert kinds_of("LogSoftmax") == kinds_of("aten._log_softmax.default") == ("softmax", "log_softmax")
    assert kinds_of("MaxPool") == ("max_pool",)
    assert kinds_of("") == ()


CHOSEN = """
default bf16_1_1
layer "node_conv2d_2" fma = bf16_1_2
layer -1 fp32
op conv where n == 16 fma(a=e4m3fn, acc=fp32)
"""


def test_a_program_computes_what_its_policy_says_and_has_the_table() -> None:
    program = numc.compile(CNN, policy=CHOSEN)
    fmas = ["fma(a=e4m3fn,acc=fp32)", "bf16_1_1", "bf16_1_2", "bf16_1_1", "fp32"]
    assert [c["fma"] for c in program.manifest["contractions"]] == fmas
    table = numc.explain(CNN, policy=CHOSEN)
    assert program.manifest["layers"] == table.layers
    assert [row["fma"] for row in table.layers if row["position"] is not None] == fmas
    assert [row["fma_line"] for row in table.layers if row["position"] is not None] == [5, 2, 3, 2, 4]
    assert str(table).splitlines()[1].split() == ["node_conv2d", "conv", "?", "x", "16", "x", "9", fmas[0], "fp32",
                                                  "5:", "op", "conv", "where", "n", "==", "16"]  # fmt: skip
    x = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)
    assert numc.verify(program, {"x": x}, samples=400).mismatches == 0
    # Each layer alone in its operator, the others in theirs: another result than with the default everywhere.
    assert not np.array_equal(program(x), numc.compile(CNN, fma="bf16_1_1")(x))


TWO_PRODUCTS = """
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
  %zero = arith.constant 0.0 : f32
  %a = tensor.extract_slice %w[0, 0] [8, 3] [1, 1] : tensor<8x6xf32> to tensor<8x3xf32>
  %b = tensor.extract_slice %w[0, 3] [8, 3] [1, 1] : tensor<8x6xf32> to tensor<8x3xf32>
  %e = tensor.empty() : tensor<4x3xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x3xf32>) -> tensor<4x3xf32>
  %p = linalg.matmul ins(%x, %a : tensor<4x8xf32>, tensor<8x3xf32>) outs(%z : tensor<4x3xf32>)
      -> tensor<4x3xf32> loc("first")
  %q = linalg.matmul ins(%x, %b : tensor<4x8xf32>, tensor<8x3xf32>) outs(%z : tensor<4x3xf32>)
      -> tensor<4x3xf32> loc("second")
  return %p, %q : tensor<4x3xf32>, tensor<4x3xf32>
}
"""


def test_equal_arithmetic_gives_equal_code() -> None:
    rule = 'default bf16_1_2\nlayer "sec*" fma = bf16_1_2\nop matmul bf16_1_2'
    one, two = (
        compiling.contents(Imported(mlir=TWO_PRODUCTS), o, cache=False)[0]
        for o in (Options(fma="bf16_1_2"), Options(policy=load_policy(rule)))
    )
    assert one.code == two.code


@pytest.mark.parametrize(
    ("policy", "fmas"),
    [
        ("default bf16_1_2", ["bf16_1_2"]),
        ('default bf16_1_2\nlayer "second" bf16_1_1', ["bf16_1_2", "bf16_1_1"]),
        ('layer "second" fp32\nlayer "first" acc = bf16', ["fma(a=fp32,acc=bf16)", "fp32"]),
    ],
)
def test_products_are_merged_only_within_an_operator(policy: str, fmas: list[str], tmp_path: Path) -> None:
    (tmp_path / "two.mlir").write_text(TWO_PRODUCTS)
    program = numc.compile(tmp_path / "two.mlir", policy=policy)
    assert [c["fma"] for c in program.manifest["contractions"]] == fmas
    rng = np.random.default_rng(1)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 8), (8, 6)))
    both = fmas * (2 // len(fmas))
    for result, half, fma in zip(program(x, w).values(), (w[:, :3], w[:, 3:]), both, strict=True):
        np.testing.assert_array_equal(result, numc.matmul(x, np.ascontiguousarray(half), fma=fma))


def test_what_is_added_to_a_product_last(tmp_path: Path) -> None:
    """R(R(A B) + R(C)) instead of an accumulator that starts from C."""
    kind = "tensor<4x4xf32>"
    (tmp_path / "add.mlir").write_text(f"""func.func @main(%a: {kind}, %b: {kind}, %c: {kind}) -> {kind} {{
  %r = linalg.matmul ins(%a, %b : {kind}, {kind}) outs(%c : {kind}) -> {kind}
  return %r : {kind}
}}""")
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal((4, 4)).astype(np.float32) for _ in range(3))
    for fma, name in (("fmac(e6m9n,chunk=8)", "1/6/9/strict"), ("fmacs(e6m9n)", "1/6/9/strict/fmacs")):
        for policy, to in ((name, "e6m9n"), (f"default fma = {fma}; default bias = last", "fp32")):
            got = numc.compile(tmp_path / "add.mlir", policy=policy)(a, b, c)
            product, bias = (reference.round(part, to) for part in (numc.matmul(a, b, fma=fma), c))
            want = reference.round(product + bias, to)
            assert (found := first_mismatch(got, want)) is None, found
        first = numc.compile(tmp_path / "add.mlir", policy=f"default fma = {fma}, bias = last; default bias = first")
        np.testing.assert_array_equal(first(a, b, c), numc.matmul(a, b, c, fma=fma))
    with pytest.raises(NumcError, match="^preset '1/6/9/strict': is a policy: leave update out, or give a policy"):
        arithmetic("1/6/9/strict", update="bf16_1_1")


@pytest.mark.parametrize(
    "fmas",
    [
        ("mp", "bf16_1_1"),
        ("mp", "fma(a=e4m3,acc=fp32)"),
        pytest.param(("fp32", "bf16_2_2{4}"), marks=pytest.mark.all),
        pytest.param(("bf16_2_2{3}", "bf16_3_3{9}"), marks=pytest.mark.all),
    ],
)
def test_layers_that_share_a_weight_convert_it_each_in_its_way(fmas: tuple[str, str]) -> None:
    text = """
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %p = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x8xf32>) outs(%z : tensor<4x8xf32>)
      -> tensor<4x8xf32> loc("first")
  %q = linalg.matmul ins(%p, %w : tensor<4x8xf32>, tensor<8x8xf32>) outs(%z : tensor<4x8xf32>)
      -> tensor<4x8xf32> loc("second")
  return %p, %q : tensor<4x8xf32>, tensor<4x8xf32>
}"""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 8), (8, 8)))
    of_four = {"dtype": "float32", "shape": (4, 8), "symbols": ("", "")}
    source = Imported(
        text, (Argument("x", **of_four),), tuple(Argument(n, **of_four) for n in "pq"), {1: ("w", w)}, ("t",)
    )
    program = numc.compile(source, policy=f'layer "first" {fmas[0]}; layer "second" fma = {fmas[1]}')
    p = numc.matmul(x, w, fma=fmas[0])
    np.testing.assert_array_equal(program(x)["p"], p)
    np.testing.assert_array_equal(program(x)["q"], numc.matmul(p, w, fma=fmas[1]))


def test_a_failing_pass_keeps_the_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def fail(module: object, state: object) -> None:
        raise ValueError("no luck")

    monkeypatch.setitem(pipeline.STAGES["numc"], "explicit-arithmetic", fail)
    with pytest.raises(CompilerBug, match="no luck; .*; reproduce with: numc opt .* --policy ") as caught:
        numc.lower(CNN, policy="layer 0 mp")
    kept = str(caught.value).split("--policy ")[1].split()[0]
    assert Path(kept).read_text() == "layer 0 mp\n"


def test_equal_policies_share_a_cached_program_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMC_CACHE_DIR", str(tmp_path))
    (tmp_path / "two.mlir").write_text(TWO_PRODUCTS)
    source = load_file(tmp_path / "two.mlir")

    def cached(text: str) -> bool:
        return compiling.contents(source, Options(policy=load_policy(text)))[1]

    assert not cached('layer "first" mp')
    assert cached('layer  "first"   mp  # the same')
    assert not cached('\nlayer "first" mp')  # the table names another line
    assert not cached('layer "second" mp')
    assert isinstance(load_policy("mp"), Policy)


def test_layers_have_the_kind_of_their_class():
    """As torch.nn.Linear, and as the nodes of ONNX that torch.onnx exports for it."""
    for operator in ("Gemm", "aten.addmm.default", "aten.linear.default", "MatMul linear", "aten.mm.default Linear"):
        assert "linear" in kinds_of(operator)
    assert kinds_of("Gemm")[0] == "gemm"
    assert "linear" not in kinds_of("MatMul")
    assert kinds_of("aten.add.Tensor layer_norm LayerNorm") == ("layer_norm", "add")
    assert kinds_of("aten.mul.Tensor silu SiLU") == ("silu", "mul", "si_lu")
    assert kinds_of("aten.mul.Tensor LlamaRMSNorm")[0] == "rms_norm"
    assert kinds_of("aten.mul.Tensor FrozenBatchNorm2d")[0] == "batch_norm"
    assert kinds_of("aten.mul.Tensor SoftmaxAttention") == ("mul", "softmax_attention")


@pytest.mark.parametrize("word", ["ReLU", "relu", "Relu", "re_lu"])
def test_kinds_are_found_in_any_spelling(word):
    layers = [other("a", "Relu"), other("b", "aten.mul.Tensor ReLU"), other("c", "Add")]
    assert [ops for _, ops in decided(f"op {word} bf16", layers)] == ["bf16", "bf16", "fp32"]


MODULES = {
    "Linear": lambda torch: torch.nn.Linear(8, 8, bias=False),
    "Conv1d": lambda torch: torch.nn.Conv1d(3, 3, 3, padding=1),
    "LSTM": lambda torch: torch.nn.LSTM(8, 8, batch_first=True),
    "LayerNorm": lambda torch: torch.nn.LayerNorm(8),
    "RMSNorm": lambda torch: torch.nn.RMSNorm(8),
    "GELU": lambda torch: torch.nn.GELU(),
    "Softmax": lambda torch: torch.nn.Softmax(-1),
}


@pytest.mark.parametrize("name", by_default(list(MODULES), ["Linear", "LayerNorm"]))
def test_a_module_is_selected_by_its_class(name):
    """As it is exported, and as torch.compile runs it, with the operation before and the one behind it left alone."""
    torch = pytest.importorskip("torch")

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = MODULES[name](torch)

        def forward(self, x):
            x = self.module(x + 1)
            return (x[0] if isinstance(x, tuple) else x) * 2

    network, x = Network().eval(), torch.ones(2, 3, 8)
    policy = f"op {name} fma = mp, ops = bf16"
    for table in (numc.explain(torch.export.export(network, (x,)), policy=policy),
                  numc.explain(network, (x,), policy=policy)):  # fmt: skip
        forward = [row for row in table.layers if row["role"] not in ("dgrad", "wgrad", "update")]
        selected = {row["layer"] for row in forward if f"op {name}" in row["rule"]}
        assert selected
        assert all("module" in layer for layer in selected)
        assert {row["layer"] for row in forward if "module" not in row["layer"]} == {"add", "mul"}


@pytest.mark.parametrize("written", [True, False])
def test_a_linear_layer_without_bias_in_onnx(written):
    """torch.onnx says which module a node was; without that, it is a product with a matrix that is a weight."""
    onnx = pytest.importorskip("onnx")
    from onnx import helper, numpy_helper

    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], "first"), helper.make_node("MatMul", ["a", "a"], ["y"], "b")]
    if written:
        said = "['model.Net', 'torch.nn.modules.linear.Projection', 'aten.linear.default']"
        nodes[0].metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value=said)
        nodes[1].metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value="[broken")
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 4]) for name in "xy"]
    weight = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    model = helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:], [weight]))
    for kind in ("linear", *(["Projection"] if written else [])):
        rows = numc.explain(model, policy=f"op {kind} mp").layers
        assert [row["fma"] for row in rows] == ["mp", "fp32"]
