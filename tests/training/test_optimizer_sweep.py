"""Every optimizer, every schedule and what goes around an update, compiled: 20 steps each, against `aot_eager`.

An optimizer is given gradients, or is a part of a training step that is compiled as a whole. What torch does not let
numc compile, numc has to tell. The tier `all` has a sample; the rest is exhaustive.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.optim import lr_scheduler as schedules  # noqa: E402

import numc  # noqa: E402
from numc.compiler.torch_compile.regions import tally  # noqa: E402

STEPS = 20
Make = Callable[[list[Any]], Any]
TORCH: Mapping[str, Make] = {
    **{
        name: partial(getattr(torch.optim, name), lr=0.1)
        for name in (
            *("Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"),
            "Adafactor",
        )
    },
    "SGD with momentum": partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01),
    "SGD, Nesterov": partial(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True),
    "AdamW, amsgrad": partial(torch.optim.AdamW, lr=0.1, amsgrad=True),
    "RMSprop, centered": partial(torch.optim.RMSprop, lr=0.1, centered=True, momentum=0.5),
    "Muon": lambda given: torch.optim.Muon([p for p in given if p.ndim == 2], lr=0.1),
}
SCHEDULES: Mapping[str, Callable[[Any], Any]] = {
    "ConstantLR": partial(schedules.ConstantLR, total_iters=4),
    "CosineAnnealingLR": partial(schedules.CosineAnnealingLR, T_max=STEPS),
    "CosineAnnealingWarmRestarts": partial(schedules.CosineAnnealingWarmRestarts, T_0=6),
    "CyclicLR": partial(schedules.CyclicLR, base_lr=0.01, max_lr=0.1, step_size_up=4),
    "ExponentialLR": partial(schedules.ExponentialLR, gamma=0.9),
    "LambdaLR": partial(schedules.LambdaLR, lr_lambda=lambda n: 1 / (n + 1)),
    "LinearLR": partial(schedules.LinearLR, total_iters=9),
    "MultiStepLR": partial(schedules.MultiStepLR, milestones=[3, 8, 12]),
    "MultiplicativeLR": partial(schedules.MultiplicativeLR, lr_lambda=lambda n: 0.95),
    "OneCycleLR": partial(schedules.OneCycleLR, max_lr=0.1, total_steps=STEPS + 1),  # it changes momentum or betas, too
    "PolynomialLR": partial(schedules.PolynomialLR, total_iters=STEPS),
    "ReduceLROnPlateau": partial(schedules.ReduceLROnPlateau, patience=0),
    "SequentialLR": lambda o: schedules.SequentialLR(
        o, [schedules.LinearLR(o, total_iters=5), schedules.ExponentialLR(o, 0.9)], milestones=[5]
    ),
    "StepLR": partial(schedules.StepLR, step_size=3),
}
# Optimizers with functions that torch runs itself: numc says so, and says why.
LEAVE = {"Adafactor": "reads norms as numbers, in a loop over the parameters"}
# With a schedule that changes the momentum, too.
SAMPLE = ("SGD with momentum",)


def _parameters() -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((5, 6), (5,))]


def trained(make: Make, schedule: Callable[[Any], Any] | None, backend: Any, whole: bool) -> Iterator[list[Any]]:
    """Yield the parameters after each step of an optimizer with a schedule.

    whole: whether one function with the forward and the backward pass is compiled, or the step with given gradients.
    """
    torch._dynamo.reset()
    torch.manual_seed(0)  # some draw, as Kron
    parameters, generator = _parameters(), torch.Generator().manual_seed(1)
    optimizer = make(parameters)
    following = schedule(optimizer) if schedule else None

    def train(x: Any) -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.linear(x, *parameters).tanh().square().mean()
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(train if whole else optimizer.step, backend=backend)
    for _ in range(STEPS):
        if whole:
            step(torch.randn(4, 6, generator=generator))
        else:
            for p in parameters:
                p.grad = torch.randn(p.shape, generator=generator)
            step()
        if following is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch cannot see that the compiled optimizer has stepped
                following.step(*[0.0] * isinstance(following, schedules.ReduceLROnPlateau))
        yield [p.detach().clone() for p in parameters]


def check(make: Make, schedule: Callable[[Any], Any] | None, whole: bool, leaves: bool) -> None:
    """Compare with aot_eager in fp32, and run the same in bf16_1_1: a few programs have all steps, or numc warns."""
    want = list(trained(make, schedule, "aot_eager", whole))
    before, calls = numc.counters(), []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        got = []
        for each in trained(make, schedule, numc.backend("fp32"), whole):
            got.append(each)
            calls.append(numc.counters().calls)
    after = numc.counters()
    for n, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5, msg=lambda text, n=n: f"step {n}: {text}")
    left = [str(each.message) for each in told if "leaves numc" in str(each.message)]
    assert bool(left) == leaves == (after.left > before.left), left
    if leaves:
        return
    in_step = [later - earlier for earlier, later in pairwise(calls[3:])]
    assert min(in_step) > 0
    assert after.programs - before.programs <= (9 if whole else 5)
    done = []
    with tally() as found:
        for _ in trained(make, schedule, numc.backend("bf16_1_1"), whole):
            done.append(Counter(found))
    in_step = [later - earlier for earlier, later in pairwise(done[3:])]
    assert all(each == in_step[0] for each in in_step)
    assert {fma for _, fma in done[-1]} <= {"bf16_1_1"}
    assert not whole or {"forward", "wgrad"} <= {role for role, _ in in_step[0]}


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [n if n in SAMPLE else pytest.param(n, marks=pytest.mark.slow) for n in TORCH])
def test_optimizers_of_torch(name: str, whole: bool) -> None:
    check(TORCH[name], SCHEDULES["OneCycleLR" if name in SAMPLE else "LambdaLR"], whole, name in LEAVE)


def test_the_tables_have_all_of_torch() -> None:
    optimizers = {
        n for n, c in vars(torch.optim).items() if isinstance(c, type) and issubclass(c, torch.optim.Optimizer)
    }
    assert optimizers - {"Optimizer", "LBFGS", "SparseAdam"} == {n.partition(",")[0].partition(" ")[0] for n in TORCH}
    assert {n for n in schedules.__all__ if n not in ("LRScheduler", "ChainedScheduler")} == set(SCHEDULES)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name: str) -> None:
    check(TORCH["SGD with momentum"], SCHEDULES[name], False, False)


def _others() -> Iterator[tuple[str, Make]]:
    """Yield the optimizers of other libraries that are installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import pytorch_optimizer

            for name in sorted(pytorch_optimizer.get_supported_optimizers()):
                yield f"pytorch_optimizer {name}", partial(pytorch_optimizer.load_optimizer(name), lr=0.01)
        except ImportError:
            pass
        try:
            from timm.optim import create_optimizer_v2, list_optimizers

            for name in list_optimizers(exclude_filters=["bnb*", "fused*", "apex*"]):
                yield f"timm {name}", partial(create_optimizer_v2, opt=name, lr=0.01)
        except ImportError:
            pass
        try:
            from transformers.optimization import Adafactor

            yield "transformers Adafactor", partial(Adafactor, lr=0.01, relative_step=False, scale_parameter=False)
        except ImportError:
            pass


OTHERS = dict(_others())


@pytest.mark.slow
@pytest.mark.skipif(not OTHERS, reason="needs pytorch_optimizer, timm or transformers")
@pytest.mark.parametrize("name", OTHERS)
def test_optimizers_of_other_libraries(name: str) -> None:
    """Some cannot be made from parameters alone, some read tensors in Python: what leaves numc has been told."""
    try:
        want = list(trained(OTHERS[name], SCHEDULES["LambdaLR"], "aot_eager", False))
    except Exception as error:
        pytest.skip(f"aot_eager: {type(error).__name__}")
    before, calls, got = numc.counters(), [], []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for each in trained(OTHERS[name], SCHEDULES["LambdaLR"], numc.backend("fp32"), False):
            got.append(each)
            calls.append(numc.counters().calls)
    for n, (ours, theirs) in enumerate(zip(got, want, strict=True)):
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4, msg=lambda text, n=n: f"step {n}: {text}")
    left = [each for each in told if "leaves numc" in str(each.message)]
    assert bool(left) == (numc.counters().left > before.left)
    in_step = [later - earlier for earlier, later in pairwise(calls[3:])]
    assert left or min(in_step) > 0


def _averaged(parameters: list[Any], backend: Any) -> Iterator[list[Any]]:
    averages = [p.detach().clone() for p in parameters]

    @torch.no_grad()
    def average(decay: float) -> None:
        for mean, p in zip(averages, parameters, strict=True):
            mean.mul_(decay).add_(p, alpha=1 - decay)

    step = torch.compile(average, backend=backend)
    for n in range(STEPS):
        step(min(0.9, (1 + n) / (10 + n)))
        yield averages


def _clipped(parameters: list[Any], backend: Any) -> Iterator[list[Any]]:
    clip = torch.compile(torch.nn.utils.clip_grad_norm_, backend=backend)
    for n in range(STEPS):
        for p in parameters:
            p.grad = p.detach() * (n + 1)
        clip(parameters, 1.0 + n / 7)
        yield [p.grad for p in parameters]


def _stochastic(parameters: list[Any], backend: Any) -> Iterator[list[Any]]:
    model = nn.ParameterList(parameters)
    averaged = torch.optim.swa_utils.AveragedModel(model)
    update = torch.compile(averaged.update_parameters, backend=backend)
    for _ in range(STEPS):
        with torch.no_grad():
            for p in parameters:
                p.mul_(0.75)
        update(model)
        yield list(averaged.module)


def _scaled(parameters: list[Any], backend: Any) -> Iterator[list[Any]]:
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    optimizer.step = torch.compile(optimizer.step, backend=backend)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
    loss = torch.compile(lambda x: torch.nn.functional.linear(x, *parameters).tanh().mean(), backend=backend)
    for n in range(STEPS):
        optimizer.zero_grad()
        scaler.scale(loss(torch.full((2, 6), 0.1 * n if n % 7 else float("inf")))).backward()
        scaler.step(optimizer)
        scaler.update()
        yield parameters


# torch runs AveragedModel.update_parameters itself: it cannot cut a function at a generator.
AROUND = {_averaged: False, _clipped: False, _stochastic: True, _scaled: False}


@pytest.mark.slow
@pytest.mark.parametrize(("around", "leaves"), AROUND.items())
def test_what_goes_around_an_update(around: Callable[[list[Any], Any], Iterator[list[Any]]], leaves: bool) -> None:
    found, before = [], numc.counters().left
    for backend in ("aot_eager", numc.backend("fp32", strict=not leaves)):
        torch._dynamo.reset()
        found.append([[x.detach().clone() for x in each] for each in around(_parameters(), backend)])
    assert leaves == (numc.counters().left > before)
    for ours, theirs in zip(*found, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
