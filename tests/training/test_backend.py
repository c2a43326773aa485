"""The torch.compile backend: training steps agree with eager torch, what stays with torch, counters, switching."""

from __future__ import annotations

import copy
import gc
import importlib
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812
from torch import fx, nn  # noqa: E402
from torch._dynamo import guards  # noqa: E402
from torch._functorch._aot_autograd import graph_compile  # noqa: E402
from zoo import SMALL, Case  # noqa: E402

import numc  # noqa: E402
from numc.compiler.torch_compile import backend, regions, tracing  # noqa: E402
from numc.frontends.pytorch.rewrites.images.gradients import convolution_backward  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def _nothing_compiled_before() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def close(got: Any, want: Any, scale: float, tolerance: float) -> None:
    """Agreement up to rounding errors of numbers of a size of `scale`: some gradients are zero but for rounding."""
    assert float((got - want).abs().max()) <= tolerance * scale


def step(model: nn.Module, case: Case, inputs: Any, backend: Any = None, seed: int = 1) -> float:
    torch.manual_seed(seed)
    loss = case.loss((torch.compile(model, backend=backend) if backend else model)(*inputs))
    loss.backward()
    return float(loss)


@pytest.mark.parametrize(("variable", "policy"), [("TORCH_LOGS", "info"), ("TORCH_TRACE", "info"), ("OTHER", "silent")])
def test_torch_formats_no_stacks_and_measures_no_guards_for_a_log_that_nobody_reads(
    variable: str, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "profile_guard_manager", theirs := lambda *_: 1.0)
    for name in ("TORCH_LOGS", "TORCH_TRACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "side_effects")
    with torch._dynamo.config.patch(side_effect_replay_policy="info"):
        importlib.reload(tracing)
        assert torch._dynamo.config.side_effect_replay_policy == policy
    assert (guards.profile_guard_manager is theirs) == (policy == "info")


@pytest.mark.parametrize("logged", [False, True])
def test_torch_writes_no_graph_as_text_for_a_log_that_nobody_reads(
    logged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    theirs = fx.GraphModule.print_readable
    monkeypatch.setattr(fx.GraphModule, "print_readable", lambda *a, **k: written.append("") or theirs(*a, **k))
    monkeypatch.setattr(tracing.trace_log, "handlers", [])  # pytest reads every log
    monkeypatch.setattr(graph_compile.aot_joint_log, "isEnabledFor", lambda _: logged)
    torch.compile(nn.Linear(2, 2), backend=numc.backend())(torch.ones(1, 2)).sum().backward()
    assert bool(written) == logged


def test_garbage_is_collected_seldom_while_torch_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    before, seen, theirs = gc.get_threshold(), [], backend.Backend._compile
    monkeypatch.setattr(backend.Backend, "_compile", lambda *a: seen.append(gc.get_threshold()) or theirs(*a))
    torch.compile(nn.Linear(2, 2), backend=numc.backend())(torch.ones(1, 2))
    assert [each[0] > before[0] for each in seen] == [True]
    assert gc.get_threshold() == before


OTHERS = ("mp", "bf16_1_1", "bf16_2_2{4}", "1/6/9", "highbfp")


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_one_training_step_in_other_arithmetics(name: str) -> None:
    case = SMALL[name]
    torch.manual_seed(0)
    model, inputs = case.model(), case.inputs()
    compiled = torch.compile(model, backend=numc.backend())
    losses = {}
    for arithmetic in ("fp32", *OTHERS):
        torch.manual_seed(1)
        model.zero_grad()
        with numc.arithmetic(arithmetic), numc.verify_training(samples=2) as watched:
            loss = case.loss(compiled(*inputs))
            loss.backward()
        assert all(p.grad.isfinite().all() for p in model.parameters())
        report = watched.report()
        assert report.mismatches == 0, report.first
        losses[arithmetic] = float(loss)
    assert all(abs(losses[a] - losses["fp32"]) < (0.3 if a == "highbfp" else 0.05) for a in OTHERS)
    assert len({losses["fp32"], losses["mp"], losses["bf16_1_1"]}) == 3


LARGE = ("resnet50", "unet", "mobilenet_v2", "generator3d", "lstm", "transformer")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in LARGE else n for n in SMALL])
def test_one_training_step_agrees_with_eager(name: str) -> None:
    case = SMALL[name]
    torch.manual_seed(0)
    ours, inputs = case.model(), case.inputs()
    eager = copy.deepcopy(ours)
    backend = numc.backend()
    loss, want = step(ours, case, inputs, backend), step(eager, case, inputs)
    assert abs(loss - want) < 1e-5 * abs(want)
    largest = max(float(p.grad.abs().max()) for p in eager.parameters())
    for p, q in zip(ours.parameters(), eager.parameters(), strict=True):
        close(p.grad, q.grad, largest, 1e-4)
    for p, q in zip(ours.buffers(), eager.buffers(), strict=True):
        close(p, q, 1.0, 1e-5)  # running statistics
    assert {r.op.split(".")[1] for r in backend.refused} <= {"bernoulli"}  # random numbers are torch's
    assert len(backend.regions) <= 3


# Single operations.


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolution_gradients(rank: int, transposed: bool) -> None:
    torch.manual_seed(0)
    count = 0
    for number in range(81):
        stride, padding, dilation, groups = (
            number % 3 + 1,
            number // 3 % 3,
            number // 9 % 3 // 2 + 1,
            2 ** (number // 27),
        )
        x = torch.randn(2, 4, *(6 + (number + d) % 3 for d in range(rank)), dtype=torch.float64)
        kernel = (2 + number % 2,) * rank
        w = torch.randn(*((4, 8 // groups) if transposed else (8, 4 // groups)), *kernel, dtype=torch.float64)
        extra = int(transposed and number % 2 and max(stride, dilation) > 1)
        how = ([stride] * rank, [padding] * rank, [dilation] * rank, transposed, [extra] * rank, groups)
        grad = torch.randn_like(aten.convolution(x, w, None, *how))
        got = convolution_backward(grad, x, w, [8], *how, [True] * 3)
        for a, b in zip(got, aten.convolution_backward(grad, x, w, [8], *how, [True] * 3), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
            count += 1
    assert count == 243


def test_gradients_of_strided_convolutions_skip_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """Phases of one, two (in groups) and three dimensions; the same bits as with all products."""
    torch.manual_seed(0)
    cases = [(rank, kernel, 1 + (rank == 2)) for rank, kernel in ((1, 1), (2, 3), (3, 4))]
    given = []
    for rank, kernel, groups in cases:
        x, w = torch.randn(2, 4, *[7] * rank), torch.randn(6, 4 // groups, *[kernel] * rank)
        given.append(
            (torch.randn_like(aten.convolution(x, w, None, [2], [kernel // 2], [1], False, [0], groups)), x, w)
        )

    def gradients(*tensors: Any) -> list[Any]:
        found = []
        for n, (_, kernel, groups) in enumerate(cases):
            how = ([2], [kernel // 2], [1], False, [0], groups, [True, False, False])
            found.append(aten.convolution_backward(*tensors[3 * n : 3 * n + 3], None, *how)[0])
        return found

    results = []
    for off, by_phases in (("", 3), ("skip-zeros", 0)):
        torch._dynamo.reset()
        monkeypatch.setenv("NUMC_DISABLE", off)
        backend = numc.backend("bf16_1_1")
        results.append(torch.compile(gradients, backend=backend)(*(t for one in given for t in one)))
        programs = [program for region in backend.regions for program in region.programs.values()]
        assert sum(c["phases"] for program in programs for c in program.manifest["contractions"]) == by_phases
    for a, b, (grad, x, w), (_, kernel, groups) in zip(*results, given, cases, strict=True):
        assert torch.equal(a.view(torch.int32), b.view(torch.int32))
        how = ([2], [kernel // 2], [1], False, [0], groups, [True, False, False])
        close(a, aten.convolution_backward(grad, x, w, None, *how)[0], float(a.abs().max()), 0.05)


@pytest.mark.parametrize(
    ("operator", "windows"), [("bf16_1_1", 1), ("fma(a=int8,b=int8,acc=fp32)", 2), ("fmac(bf16:sr8)", 2)]
)
@pytest.mark.parametrize("kernel", [1, 3])
def test_gradients_of_strided_filters_have_no_windows_that_no_filter_reaches(
    kernel: int, operator: str, windows: int
) -> None:
    """What whole operands or places of results decide about has all `windows` that begin at one element of a filter."""
    torch.manual_seed(0)
    x, w = torch.randn(2, 4, 8, 8), torch.randn(6, 4, kernel, kernel)
    grad = torch.randn(2, 6, 4, 4)
    how = ([2], [kernel // 2], [1], False, [0], 1, [False, True, False])
    backend = numc.backend(operator)
    found = torch.compile(lambda *t: aten.convolution_backward(*t, None, *how)[1], backend=backend)(grad, x, w)
    (program,) = [program for region in backend.regions for program in region.programs.values()]
    (layer,) = program.manifest["layers"]
    assert {layer["m"], layer["n"]} == {6, 4 * (kernel + windows - 1) ** 2}
    close(found, aten.convolution_backward(grad, x, w, None, *how)[1], float(found.abs().max()), 0.05)
    if windows == 1:
        pixels = torch.nn.functional.unfold(x, kernel, padding=kernel // 2, stride=2).transpose(1, 2).flatten(0, 1)
        want = numc.matmul(grad.transpose(0, 1).flatten(1).numpy(), pixels.numpy(), fma=operator)
        assert found.numpy().tobytes() == want.reshape(found.shape).tobytes()


def gradients(function: Callable[..., Any], *inputs: Any) -> list[Any]:
    values = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
    torch.manual_seed(7)
    result = function(*values)
    (result * torch.linspace(0.5, 1.5, result.numel()).reshape(result.shape)).sum().backward()
    return [result, *(v.grad for v in values if v.requires_grad)]


X = torch.linspace(-2, 2, 48)


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x: F.dropout(x, 0.3), (X,)),
        (lambda x: F.dropout(x.T, 0.3), (X.reshape(6, 8),)),  # masks are drawn in the order of memory
        (lambda x, *w: torch.lstm(x, (x[0, :, :4].expand(2, 2, 4),) * 2, w, False, 2, 0.4, True, False, False)[0],
         (X.reshape(3, 2, 8), X.reshape(3, 16)[:, :8].repeat(6, 1)[:16] / 4, X.reshape(12, 4).repeat(2, 1)[:16] / 4,
          *[X.reshape(12, 4).repeat(2, 1)[:16] / 3] * 2)),  # dropout between the layers
        (lambda x: F.local_response_norm(x, 3), (X.reshape(2, 4, 6),)),
        (lambda x: F.fold(F.unfold(x, 3, padding=1), (6, 4), 3, padding=1), (X.reshape(1, 2, 6, 4),)),
        (lambda x: F.adaptive_max_pool2d(x, 3).sum() + F.max_pool3d(x, 2), (X.reshape(1, 2, 4, 6),)),
        (lambda x: F.conv3d(x[None], x[:, None, :3], stride=2, padding=1, groups=2), (X.reshape(2, 4, 3, 2),)),
        (lambda x, t: F.cross_entropy(x, t, torch.arange(1.0, 9), ignore_index=2), (X.reshape(6, 8), torch.arange(6))),
        (lambda x, t: F.nll_loss(F.log_softmax(x, 1), t, reduction="none"), (X.reshape(6, 8), torch.arange(6))),
        (lambda x, t: F.cross_entropy(x, t), (X.reshape(2, 4, 3, 2), torch.arange(12).reshape(2, 3, 2) % 4)),
        (lambda x: F.scaled_dot_product_attention(x, x / 3, x * 2, is_causal=True), (X.reshape(2, 6, 4),)),
        (lambda x: F.layer_norm(x, (8,)), (X.reshape(6, 8),)),
        (lambda x: F.group_norm(x, 2), (X.reshape(2, 4, 6),)),
        (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), (X.reshape(1, 1, 6, 8),)),
        (lambda x: F.avg_pool2d(x, 3, 2, 1), (X.reshape(1, 1, 6, 8),)),
        (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (X.reshape(1, 1, 6, 8),)),
        (lambda t, i: F.embedding(i, t), (X.reshape(6, 8), torch.tensor([0, 5, 5, 2]))),
        (lambda x, i: x.gather(1, i), (X.reshape(6, 8), torch.tensor([[0, 7, 7]] * 6))),
        (lambda x, i: x[i] * 2, (X.reshape(6, 8), torch.tensor([0, 5, 5, 2]))),
        (lambda x: F.gelu(x) + F.silu(x) + F.softplus(x) + x.sigmoid().log(), (X,)),
        (lambda x: x.add_(1).mul_(x) if not x.requires_grad else (x + 1).mul_(x), (X,)),
        (lambda x: torch.cat([x.chunk(3)[n].cumsum(0) for n in (2, 0)]), (X,)),
    ],
)  # fmt: skip
def test_operations_and_their_gradients(function: Callable[..., Any], inputs: Any) -> None:
    got = gradients(torch.compile(function, backend=numc.backend()), *inputs)
    for a, b in zip(got, gradients(function, *inputs), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=5e-5)


@pytest.mark.parametrize("dim", [0, 2])
def test_weights_of_given_norms_are_trained_without_eager_torch(dim: int) -> None:
    torch.manual_seed(0)
    model = nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 6, 3), dim=dim)
    x, before = torch.randn(2, 4, 9), numc.counters().eager_operations
    compiled = torch.compile(model, backend=numc.backend())
    for got, want in zip(
        *(torch.autograd.grad(f(x).sin().sum(), list(model.parameters())) for f in (compiled, model)), strict=True
    ):
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    assert numc.counters().eager_operations == before


def test_a_function_without_tensors() -> None:
    compiled = torch.compile(lambda: torch.ones(3) * 2, backend=numc.backend())
    assert torch.equal(compiled(), torch.full((3,), 2.0))


def test_results_have_the_strides_that_torch_expects() -> None:
    """Eager torch keeps the order of dimensions in memory; a view of it would be made by strides."""

    def function(x: Any) -> Any:
        y = x.T * 2
        return y, y.T

    for a, b in zip(
        torch.compile(function, backend=numc.backend())(X.reshape(6, 8)), function(X.reshape(6, 8)), strict=True
    ):
        assert torch.equal(a, b)
        assert a.stride() == b.stride()


def test_results_with_strides_are_made_by_the_program_and_can_be_changed_in_place() -> None:
    def function(x: Any) -> Any:
        return x.permute(2, 0, 1) * x.square().sum()

    leaves = [X.reshape(2, 4, 6).clone().requires_grad_() for _ in range(2)]
    compiled = torch.compile(function, backend=numc.backend())
    before = numc.counters().eager_operations
    got, want = compiled(leaves[0]), function(leaves[1])
    assert got.stride() == want.stride() == (1, 24, 6)
    assert numc.counters().eager_operations == before
    for result in (got, want):
        result.mul_(3).sum().backward()
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad, rtol=1e-4, atol=1e-4)


def test_gradients_of_convolutions_are_kept_and_not_copied() -> None:
    """Torch takes a gradient that lies in memory as its weight does."""
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ConvTranspose2d(4, 2, 3, stride=2))
    seen: list[tuple[int, ...]] = []

    def noted(gradient: Any) -> None:
        seen.append(tuple(gradient.stride()))

    for parameter in network.parameters():
        parameter.register_hook(noted)
    torch.compile(network, backend=numc.backend())(torch.randn(2, 3, 8, 8)).sum().backward()
    assert sorted(seen) == sorted(tuple(p.stride()) for p in network.parameters())


@pytest.mark.parametrize("arithmetic", ["fp32", "bf16_1_1"])
def test_kept_tensors_that_are_permuted_are_read_where_they_are(
    arithmetic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient of a convolution's weight is a convolution of the transposed images."""
    monkeypatch.setenv("NUMC_DISABLE", "recompute")  # or else they are not kept
    network = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Hardswish(), nn.Conv2d(4, 5, 1))
    images = torch.randn(2, 3, 8, 8)

    def gradients() -> tuple[list[Any], list[regions.Region]]:
        torch._dynamo.reset()
        model, used = copy.deepcopy(network), numc.backend(arithmetic)
        torch.compile(model, backend=used)(images).square().sum().backward()
        return [p.grad for p in model.parameters()], used.regions

    found, compiled = gradients()
    taken = [
        (region.imported.inputs[n].shape, order) for region in compiled for n, order in region.input_orders.items()
    ]
    assert sorted(taken) == [((2, 3, 8, 8), [1, 0, 2, 3]), ((2, 4, 8, 8), [1, 0, 2, 3])]
    monkeypatch.setattr(regions, "inputs_by_strides", lambda graph, inputs: {})
    for got, want in zip(found, gradients()[0], strict=True):
        assert torch.equal(got.view(torch.int32), want.view(torch.int32))


def test_keys_of_attention_are_read_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the batch as second dimension they are kept as transposed views, whose rows are far apart."""
    attention, x = nn.MultiheadAttention(8, 2), torch.randn(5, 3, 8)

    def gradients() -> tuple[list[Any], list[list[int]]]:
        torch._dynamo.reset()
        model, used = copy.deepcopy(attention), numc.backend()
        torch.compile(model, backend=used)(x, x, x)[0].square().sum().backward()
        orders = [order for region in used.regions for order in region.input_orders.values()]
        return [p.grad for p in model.parameters()], orders

    found, orders = gradients()
    assert [2, 0, 1] in orders
    monkeypatch.setattr(regions, "inputs_by_strides", lambda graph, inputs: {})
    for got, want in zip(found, gradients()[0], strict=True):
        assert torch.equal(got.view(torch.int32), want.view(torch.int32))


def test_optimizers_write_weights_and_their_state_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a step gives anew takes no memory beside what it replaces, and has the bits of a step that copies."""
    kept: list[int] = []
    run = regions.Region.__call__

    def noted(region: regions.Region, *tensors: Any) -> Any:
        found = run(region, *tensors)
        results = found if isinstance(found, tuple) else (found,)
        kept.append(sum(any(r is t for t in tensors) for r in results))
        return found

    def trained() -> list[Any]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Linear(8, 20), torch.nn.Linear(20, 3))
        optimizer = torch.optim.Adam(network.parameters(), 0.01)
        for p in network.parameters():
            p.grad = torch.ones_like(p)
        step = torch.compile(optimizer.step, backend=numc.backend("bf16_1_1"))
        for _ in range(2):
            step()
        return [*network.parameters(), *(s["exp_avg_sq"] for s in optimizer.state.values())]

    monkeypatch.setattr(regions.Region, "__call__", noted)
    in_place = trained()
    assert max(kept) >= 12  # four weights and biases, two moments of each
    monkeypatch.setattr(backend, "_updated", tuple)
    kept.clear()
    assert all(torch.equal(a, b) for a, b in zip(in_place, trained(), strict=True))
    assert max(kept) == 0


def test_a_product_by_a_number_in_one_sum_is_a_multiply_add() -> None:
    """Of the optimizers' operations: the operator rounds, not `ops`."""

    def bf16(x: Any) -> Any:
        return x.bfloat16().float()

    def step(start: Any, factor: float, by: Any) -> Any:
        return bf16(bf16(by) * bf16(torch.tensor(factor)) + bf16(start))

    x, y, z = torch.randn(3, 40)
    for function, want in (
        (lambda x, y, z: torch.addcmul(x, y, z, value=0.3), step(x, 0.3, y * z)),
        (lambda x, y, z: torch._foreach_addcdiv([x], [y], [z], value=-0.3)[0], step(x, -0.3, y / z)),
        (lambda x, y, z: torch.lerp(x, y, 0.2), step(x, 0.2, y - x)),
        (lambda x, y, z: torch.lerp(x, y, 0.9), step(y, -0.1, y - x)),
        (lambda x, y, z: torch._foreach_lerp([x], [y], 0.2)[0], step(x, 0.2, y - x)),
    ):
        torch._dynamo.reset()
        got = torch.compile(function, backend=numc.backend("bf16_1_1"))(x, y, z)
        assert torch.equal(got, want)


OPTIMIZERS = {
    "SGD": lambda p, **o: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01, nesterov=True, **o),
    "Adam": lambda p, **o: torch.optim.Adam(p, 0.1, weight_decay=0.01, **o),
    "AdamW": lambda p, **o: torch.optim.AdamW(p, 0.1, amsgrad=True, **o),
}


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str, foreach: bool) -> None:
    results = []
    backend = numc.backend()
    for compiled in (True, False):
        parameters = [nn.Parameter(X.clone()), nn.Parameter(X.reshape(6, 8) / 2)]
        optimizer = OPTIMIZERS[name](parameters, foreach=foreach)
        update = torch.compile(optimizer.step, backend=backend) if compiled else optimizer.step
        for n in range(3):
            for p in parameters:
                p.grad = (p.detach() * (n + 1)).cos()
            update()
        results.append(parameters)
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert backend.refused == []


# Steps after the first one.


class Dense(nn.Module):
    """Two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        return self.down(torch.relu(self.up(x)))


def test_nothing_is_compiled_twice() -> None:
    torch.manual_seed(0)
    model = Dense()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)

    @torch.compile(backend="numc", options={"fma": "bf16_1_2", "update": "fp32"})
    def train(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    losses = [float(train(torch.ones(3, 8))) for _ in range(2)]  # the second makes the momentum
    before = numc.counters()
    losses += [float(train(torch.ones(3, 8))) for _ in range(5)]
    after = numc.counters()
    assert (after.graphs, after.programs, after.compilations) == (before.graphs, before.programs, before.compilations)
    assert after.calls - before.calls == 5 * 3
    assert sorted(losses, reverse=True) == losses


def test_programs_come_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    from numc.frontends.pytorch import convert

    torch.manual_seed(0)
    model = Dense()
    for expected in (1, 0):
        torch._dynamo.reset()
        if not expected:  # nor is the graph converted again, for which torch-mlir would be loaded
            monkeypatch.setattr(convert, "to_linalg", None)
        before = numc.counters().compilations
        torch.compile(model, backend=numc.backend("bf16_1_3"))(torch.ones(5, 8))
        assert numc.counters().compilations - before == expected


@pytest.mark.slow
def test_another_batch_size_is_another_program() -> None:
    torch.manual_seed(0)
    model = Dense()
    compiled = torch.compile(model, backend=numc.backend())
    for batch in (4, 7, 2, 9, 7, 9):
        x = torch.randn(batch, 8)
        torch.testing.assert_close(compiled(x), model(x))
    before = numc.counters()
    for batch in (4, 7, 2, 9):
        compiled(torch.randn(batch, 8)).sum().backward()
    model.zero_grad()
    programs = numc.counters().programs
    for batch in (4, 7, 2, 9):
        compiled(torch.randn(batch, 8)).sum().backward()
    assert numc.counters().programs == programs
    assert numc.counters().graphs >= before.graphs


def test_views_of_inputs_that_repeat_elements_are_results() -> None:
    def function(x: Any, y: Any) -> Any:
        return *torch.broadcast_tensors(x, y), (y * 2).expand(y.shape[0], x.shape[0])

    torch._dynamo.reset()
    run = torch.compile(function, backend=numc.backend("fp32"), dynamic=True)
    for rows, columns in ((4, 3), (5, 9)):
        x, y = torch.randn(columns), torch.randn(rows, 1)
        for ours, eager in zip(run(x, y), function(x, y), strict=True):
            assert ours.stride() == eager.stride()
            torch.testing.assert_close(ours, eager)


def test_torch_runs_what_cannot_be_compiled_where_sizes_are_free() -> None:
    torch._dynamo.reset()
    run = torch.compile(lambda x: torch.special.i0(x * 2) + 1, backend=numc.backend("fp32"), dynamic=True)
    for size in (5, 8):
        x = torch.randn(size, size)
        torch.testing.assert_close(run(x), torch.special.i0(x * 2) + 1)


def test_numbers_that_change_where_sizes_are_free() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dense, self.norm, self.factor = nn.Linear(8, 4), nn.LayerNorm(4), 1.0

        def forward(self, x: Any) -> Any:
            return self.norm(self.dense(x)) * self.factor

    torch.manual_seed(0)
    model = Scaled()
    compiled = torch.compile(model, backend=numc.backend(), dynamic=True)
    for batch, factor in ((4, 0.5), (7, 0.75), (4, 1.5), (4, 0.5)):
        model.factor, x = factor, torch.randn(batch, 8)
        got, want = compiled(x), model(x)
        torch.testing.assert_close(got, want)
        for one, other in zip(
            *(torch.autograd.grad(y.sin().sum(), list(model.parameters())) for y in (got, want)), strict=True
        ):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_views_by_strides_of_what_is_computed() -> None:
    """Torch traces group normalisation before a convolution with as_strided of one of several tensors of a shape."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.GroupNorm(2, 4), nn.Conv2d(4, 3, 3, padding=1)), torch.randn(2, 4, 5, 5)
    nn.init.normal_(model[0].weight)
    compiled = torch.compile(model, backend=numc.backend())
    found = [[y, *torch.autograd.grad(y.sin().sum(), list(model.parameters()))] for y in (compiled(x), model(x))]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


class Windows(nn.Module):
    """Overlapping windows of a sequence, by the strides of a view of something computed, as in Longformer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value = self.linear(x.transpose(0, 1)).view(12, 2, 4, 2).permute(1, 2, 0, 3).reshape(8, 3, 4, 2)
        first, step, *others = value.stride()
        written = value.contiguous().as_strided_scatter(x[0, :2], [2, 6], [50, 7], 8)
        return value.as_strided([8, 5, 4, 2], [first, step // 2, *others]).cos() + written.sin().mean()


def test_windows_by_the_strides_of_a_view_of_what_is_computed() -> None:
    """What is read depends on the order of memory that a view has in torch."""
    torch.manual_seed(0)
    model, x = Windows(), torch.randn(2, 12, 6)
    before = numc.counters().eager_operations
    compiled = torch.compile(model, backend=numc.backend())
    found = [[y, *torch.autograd.grad(y.sin().sum(), list(model.parameters()))] for y in (compiled(x), model(x))]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    assert numc.counters().eager_operations == before


def test_a_compiled_module_can_be_copied_and_saved(tmp_path: Path) -> None:
    torch.manual_seed(0)
    compiled, x = torch.compile(Dense(), backend=numc.backend("bf16_1_1")), torch.randn(3, 8)
    want = compiled(x)
    torch.save(compiled, tmp_path / "compiled.pt")
    for copied in (copy.deepcopy(compiled), torch.load(tmp_path / "compiled.pt", weights_only=False)):
        assert torch.equal(copied(x), want)


def test_switching_arithmetic_needs_no_tracing() -> None:
    torch.manual_seed(0)
    model, x = Dense(), torch.randn(3, 8)
    compiled = torch.compile(model, backend=numc.backend())
    fp32 = compiled(x).detach()
    graphs = numc.counters().graphs
    with numc.arithmetic("bf16_1_1"):
        rounded = compiled(x).detach()
        with numc.arithmetic("mp", softmax="bf16_1_1"):
            mixed = compiled(x).detach()
        assert torch.equal(compiled(x), rounded)
    assert torch.equal(compiled(x), fp32)
    assert len({tuple(y.flatten().tolist()) for y in (fp32, rounded, mixed)}) == 3
    direct = torch.compile(copy.deepcopy(model), backend=numc.backend("bf16_1_1"))(x)
    assert torch.equal(direct, rounded)
    programs = numc.counters()
    for _ in range(3):
        with numc.arithmetic("bf16_1_1"):
            compiled(x)
    assert (numc.counters().graphs, numc.counters().programs) == (programs.graphs, programs.programs)
    assert programs.graphs == graphs + 2  # forward and backward of the copy


def test_the_backward_pass_switches_too() -> None:
    torch.manual_seed(0)
    model, x = Dense(), torch.randn(3, 8)
    compiled = torch.compile(model, backend=numc.backend())
    found = []
    for name in ("fp32", "bf16_1_1", "fp32"):
        model.zero_grad()
        with numc.arithmetic(dgrad=name, wgrad=name):
            compiled(x).square().sum().backward()
        found.append(model.up.weight.grad.clone())
    assert torch.equal(found[0], found[2])
    assert not torch.equal(found[0], found[1])


@pytest.mark.parametrize("arithmetic", ["fp32", pytest.param("bf16_2_2{3}", marks=pytest.mark.slow)])
def test_the_bits_do_not_depend_on_the_number_of_threads(arithmetic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = SMALL["resnet18"]
    torch.manual_seed(0)
    model, inputs = case.model(), case.inputs()
    compiled = torch.compile(model, backend=numc.backend(arithmetic))
    found = []
    for threads in ("1", "2", "7"):
        monkeypatch.setenv("NUMC_NUM_THREADS", threads)
        model.zero_grad()
        case.loss(compiled(*inputs)).backward()
        found.append([p.grad.clone() for p in model.parameters()])
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


# What stays with torch.


def test_float64_and_complex_numbers_stay_with_torch_and_warn_once() -> None:
    def function(x: Any) -> Any:
        return (x.double() * 2).float() + torch.fft.fft(x).abs()

    backend = numc.backend()
    with pytest.warns(UserWarning, match="^numc: .*is float64; torch runs it.*is complex64, not float32, "):
        got = torch.compile(function, backend=backend)(X)
    torch.testing.assert_close(got, function(X))
    assert any(r.op == "aten.fft_fft.default" or "fft" in r.op for r in backend.refused)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        torch.compile(lambda x: x.double().cos(), backend=backend)(X)


def test_other_devices_stay_with_torch() -> None:
    def function(x: Any) -> Any:
        return x * 2 + 1, torch.ones(3, device="meta") * 2

    backend = numc.backend()
    rest = "is on device meta; torch runs it, numc computes on the CPU: use .to\\('cpu'\\)"
    with pytest.warns(UserWarning, match=f"^numc: .*aten.mul.Tensor \\({__file__}:[0-9]+\\): {rest}"):
        got, other = torch.compile(function, backend=backend)(X)
    assert torch.equal(got, X * 2 + 1)
    assert other.device.type == "meta"
    assert len(backend.regions) == 1


def test_sizes_that_depend_on_data_stay_with_torch() -> None:
    def function(x: Any) -> Any:
        return (x[x > 0] * 2).sum() + x.exp().sum()

    backend = numc.backend()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        torch.testing.assert_close(torch.compile(function, backend=backend)(X), function(X))
    assert {r.reason for r in backend.refused} == {"a size or number depends on data"}
    assert len(backend.regions) > 0


def test_what_torch_mlir_does_not_lower_stays_with_torch() -> None:
    def function(x: Any) -> Any:
        q, r = torch.linalg.qr(x @ x.T)
        return (q @ r).tanh()

    backend = numc.backend()
    x = torch.randn(6, 6)
    torch.testing.assert_close(torch.compile(function, backend=backend)(x), function(x))
    (refused,) = backend.refused
    assert str(refused).startswith("aten.linalg_qr.default (")
    assert len(backend.regions) == 2


def test_explain() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            y = torch.linalg.qr(self.dense(x))[0]
            torch._dynamo.graph_break()
            return y.relu()

    model = Mixed()
    found = numc.explain(model, torch.randn(4, 4))
    line = Mixed.forward.__code__.co_firstlineno + 1
    assert found.programs >= 3
    assert found.operations > 3
    assert any(r.op == "aten.linalg_qr.default" and r.source == f"{__file__}:{line}" for r in found.eager)
    assert len(found.graph_breaks) == 1
    assert found.graph_breaks[0].startswith(f"{__file__}:{line + 1}: ")
    assert str(found).splitlines()[0] == f"{found.operations} operations in {found.programs} programs of numc"
    assert f"torch runs aten.linalg_qr.default ({__file__}:{line}): numc has no conversion of it for" in str(found)
    assert 0 < found.eager_seconds["aten.linalg_qr.default"] < found.seconds
    assert re.search(r"^torch takes [\d.]+ of [\d.]+ ms for aten.linalg_qr.default \(\d+%\)$", str(found), re.MULTILINE)
    assert model.dense.weight.grad is None


def test_an_index_out_of_range_is_an_error() -> None:
    compiled = torch.compile(lambda t, i: t[i] * 2, backend=numc.backend())
    assert compiled(X, torch.tensor([3])) == X[3] * 2
    with pytest.raises(numc.NumcError, match="^an index is out of range"):
        compiled(X, torch.tensor([99]))


def test_unknown_options() -> None:
    with pytest.raises(Exception, match="unknown role 'fam'"):
        torch.compile(torch.relu, backend="numc", options={"fam": "mp"})(X)
    for given in ("numc", numc.backend("mp")):
        with pytest.raises(
            Exception, match="mode 'max-autotune': modes are those of torch's own compiler: leave it out"
        ):
            torch.compile(torch.relu, backend=given, mode="max-autotune")(X)


def test_the_entry_point_is_the_backend() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    assert '[project.entry-points."torch_dynamo_backends"]\nnumc = "numc.compiler.torch_compile.entry:numc"\n' in text
    from torch._dynamo.backends.registry import lookup_backend

    from numc.compiler.torch_compile import entry

    # The first where numc is installed and torch finds its entry point, the second where it runs from its sources.
    assert lookup_backend("numc") in (entry.numc, backend.numc)
    with pytest.raises(numc.NumcError, match="unknown role 'formats'"):
        entry.numc(torch.fx.symbolic_trace(nn.Identity()), [], options={"formats": "bf16"})


def test_without_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\nimport numc\ntry: numc.backend\nexcept numc.NumcError as e: print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "numc.backend: PyTorch is not installed: pip install torch\n", done.stderr
