"""Numbers that change from step to step are arguments of one program, and nothing leaves numc in silence."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import numc  # noqa: E402
from numc.compiler.torch_compile import ahead  # noqa: E402
from numc.support.errors import NumcError  # noqa: E402

X = torch.ones(3)


class Signs(torch.optim.Optimizer):
    """Steps of a size that changes, counted in an int in the place that is given, and averaged over the steps.

    torch itself forgets attributes of the optimizer: every second step that is counted there is doubled, and each
    halves the rate.
    """

    def __init__(self, params: Any, where: str) -> None:
        super().__init__(params, {"lr": 1.0, "step": 0})
        self.where, self.taken, self.rate = where, 0, 1.0
        for p in params:
            self.state[p]["step"] = 0

    @torch.no_grad()
    def step(self) -> None:
        """Take a step whose size is lr, divided by its number."""
        if self.where == "attribute":
            self.taken += 1
            self.rate *= 0.5
        for group in self.param_groups:
            group["step"] += self.where == "group"
            for p in group["params"]:
                self.state[p]["step"] += self.where == "state"
                count = group["step"] + self.state[p]["step"] + self.taken
                p.add_(p.grad.sign() * 2 if self.taken % 2 else p.grad.sign(), alpha=-group["lr"] * self.rate / count)


@pytest.mark.filterwarnings("error:numc")
@pytest.mark.parametrize("where", ["group", "state", "attribute"])
def test_an_optimizer_that_counts_in_an_int_loses_no_update(where: str) -> None:
    torch._dynamo.reset()
    found, before = [], numc.counters()
    for is_compiled in (True, False):
        p = torch.nn.Parameter(torch.zeros(3))
        p.grad = X.clone()
        optimizer = Signs([p], where)
        step = (
            torch.compile(optimizer.step, backend=numc.backend("fp32", strict=True)) if is_compiled else optimizer.step
        )
        for n in range(12):
            optimizer.param_groups[0]["lr"] = 2.0 ** (n % 5)
            step()
            found.append(p.tolist())
    assert found[:12] == found[12:]
    after = numc.counters()
    assert after.calls - before.calls == 12
    assert after.programs - before.programs <= 3 + (where == "attribute")


def test_floats_that_change_are_arguments_of_both_passes() -> None:
    """Forward and backward pass have one program for all loss scales and temperatures."""
    torch._dynamo.reset()

    def loss(w: Any, scale: float, count: int) -> Any:
        return ((w * scale).tanh() / count).sum() * (1 - scale) ** 2

    compiled, calls = torch.compile(loss, backend=numc.backend("fp32", strict=True)), []
    for n in range(6):
        w, given = torch.randn(4, requires_grad=True), (0.3 + n / 9, n + 2)
        (got,) = torch.autograd.grad(compiled(w, *given), w)
        (want,) = torch.autograd.grad(loss(w, *given), w)
        torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
        calls.append(numc.counters().programs)
    assert len(set(calls[1:])) == 1


def _limit(run: Any) -> Any:
    with torch._dynamo.config.patch(recompile_limit=2):
        return [run(lambda x, text: x * len(text))(X, "a" * n) for n in range(5)][-1]


def _loop(run: Any) -> Any:
    def function(x: Any) -> Any:
        for _ in range(2):
            x = x * 2
            torch._dynamo.graph_break()
        return x

    return run(function)(X)


def _later(run: Any) -> Any:
    def function(x: Any, cuts: bool) -> Any:
        x = x * 2
        if cuts:
            torch._dynamo.graph_break()
        return x + 1

    compiled = run(function)
    return compiled(X, False), compiled(X, True)


def _swallowed(run: Any) -> Any:
    compiled = run(lambda x: x.nothing + 1)
    with torch._dynamo.config.patch(suppress_errors=True), pytest.raises(AttributeError):
        compiled(X)


def _generator(run: Any) -> Any:
    def function(x: Any) -> Any:
        yield x * 2

    return list(run(function)(X))


WAYS = {
    _limit: "recompile limit exceeded: torch compiled it 2 times, the last for .* == 'a+': give what changes as a",
    _loop: "graph break in loop, after Call to .*graph_break.*test_changing_numbers.py:[0-9]+",
    _later: "torch now cuts it at .*test_changing_numbers.py:[0-9]+: Call to .*graph_break",
    _swallowed: "Observed exception .*test_changing_numbers.py:[0-9]+",
    _generator: "Attempt to trace generator",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_function_that_leaves_numc_is_told_once(way: Callable[[Any], Any]) -> None:
    torch._dynamo.reset()
    backend, before = numc.backend("fp32"), numc.counters().left
    with pytest.warns(UserWarning, match="^numc: .*test_changing_numbers.py:[0-9]+. leaves numc.*" + WAYS[way]) as told:
        way(lambda function: torch.compile(function, backend=backend))
    assert len([each for each in told if "leaves numc" in str(each.message)]) == 1
    assert numc.counters().left > before


@pytest.mark.parametrize("options", [{"backend": "numc", "options": {"strict": True}}, {}])
def test_a_function_that_leaves_a_strict_numc_is_an_error(options: dict[str, Any]) -> None:
    options = options or {"backend": numc.backend("fp32", strict=True)}
    for way in (_limit, _loop, _later, _generator):
        torch._dynamo.reset()
        with pytest.raises(NumcError, match="leaves numc, torch runs it in its own arithmetic: .*" + WAYS[way]):
            way(lambda function: torch.compile(function, **options))


def test_what_is_cut_from_the_beginning_has_not_left() -> None:
    """The parts are compiled; numc.counters() has the number of cuts."""
    torch._dynamo.reset()

    def function(x: Any) -> Any:
        x = x * 2
        torch._dynamo.graph_break()
        return x + 1

    before = numc.counters()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert torch.compile(function, backend=numc.backend("fp32", strict=True))(X).tolist() == [3, 3, 3]
    after = numc.counters()
    assert (after.graph_breaks - before.graph_breaks, after.left - before.left) == (1, 0)


def test_an_optimizer_whose_hooks_cut_its_step_has_not_left() -> None:
    """torch runs the loop over the hooks itself, which computes nothing, and compiles the update in it."""
    torch._dynamo.reset()
    weights = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    optimizers = [torch.optim.SGD([weight], lr=0.1, momentum=0.5) for weight in weights]
    optimizers[1].register_step_pre_hook(torch.compiler.disable(lambda *_: None))
    before = numc.counters()
    for weight, optimizer in zip(weights, optimizers, strict=True):
        weight.grad = torch.tensor([1.0, 3.0, 1e-3])
        step = torch.compile(optimizer.step, backend=numc.backend("bf16_1_1", strict=True))
        for _ in range(3):
            step()
    after = numc.counters()
    assert weights[1].tolist() == weights[0].tolist() != [0.7, 0.1, 0.9997]
    assert (after.left - before.left, after.calls - before.calls) == (0, 6)


def test_another_backend_is_not_watched() -> None:
    torch._dynamo.reset()
    before = numc.counters()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        _loop(lambda function: torch.compile(function, backend="eager"))
    assert numc.counters().left == before.left


def test_strict_is_true_or_false() -> None:
    with pytest.raises(NumcError, match="^strict: got str, want True or False$"):
        numc.backend("fp32", strict="yes")  # type: ignore[arg-type]


def test_who_waits_long_for_a_program_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "PATIENCE", 0.01)
    begun, told = threading.Event(), threading.Event()

    def make() -> int:
        begun.set()
        told.wait(60)
        return 3

    work = ahead.Ahead(make)
    threading.Thread(target=work.run).start()
    begun.wait(60)
    threading.Timer(0.2, told.set).start()
    with pytest.warns(UserWarning, match="^numc: has waited 0.01 s for a program that another thread of this process"):
        assert work.result() == 3
