"""numc.train.OptimizerState: the bits of a training whose state another program rounds, and the bytes that it takes."""

from __future__ import annotations

import io
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812

import numc  # noqa: E402
from numc.numerics.grammar import parse_conversion  # noqa: E402
from numc.numerics.reference import random  # noqa: E402
from numc.train import OptimizerState  # noqa: E402
from tiers import pairs  # noqa: E402

X = torch.randn(24, 16, generator=torch.Generator().manual_seed(1))
Y = torch.arange(24) % 4

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9),
    "Adam": lambda groups: torch.optim.Adam(groups, lr=0.01),
    "AdamW": lambda groups: torch.optim.AdamW(groups, lr=0.01, amsgrad=True),
    "foreach": lambda groups: torch.optim.AdamW(groups, lr=0.01, foreach=True),
    "fused": lambda groups: torch.optim.Adam(groups, lr=0.01, fused=True),
    "RMSprop": lambda groups: torch.optim.RMSprop(groups, lr=0.01, momentum=0.5),
}


class Training:
    """A network with two groups of parameters and one that gets no gradient; its step, compiled or not."""

    def __init__(self, optimizer: str = "Adam", compiled: bool = False) -> None:
        torch._dynamo.reset()
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
        self.unused = torch.nn.Parameter(torch.ones(3))
        groups = [
            {"params": [self.unused, *self.model[0].parameters()]},
            {"params": self.model[2].parameters(), "lr": 0.02, "weight_decay": 0.1},
        ]
        self.optimizer = OPTIMIZERS[optimizer](groups)
        self.step = torch.compile(self._step, backend=numc.backend()) if compiled else self._step

    def _step(self, x: Any, y: Any) -> Any:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def run(self, steps: int) -> list[float]:
        return [float(self.step(X, Y).detach()) for _ in range(steps)]

    def bits(self) -> list[bytes]:
        """Everything that the training has made: parameters, and the values of the state."""
        states = self.optimizer.state_dict()["state"]
        values = [v for s in states.values() for v in s.values() if isinstance(v, torch.Tensor)]
        return [each.detach().numpy().tobytes() for each in (*self.model.parameters(), *values)]


def rounded(x: Any, to: str, seed: int) -> Any:
    """Round by what is no code of the compiler: ml_dtypes to nearest even, exact fractions stochastically."""
    conversion = parse_conversion(to)
    if conversion.noise is None:
        narrow = {"bf16": ml_dtypes.bfloat16, "fp16": np.float16, "e5m2": ml_dtypes.float8_e5m2}[to]
        return x.astype(narrow).astype(np.float32)
    draws = random.draws(random.stream(seed, 0), x.size, conversion.noise).tolist()
    fmt, bits = conversion.format, conversion.noise.bits
    found = []
    for value, u in zip(x.reshape(-1).tolist(), draws, strict=True):
        exact = abs(Fraction(value))
        exponent = max(np.frexp(abs(value))[1] - 1, fmt.emin) if value else fmt.emin
        quantum = Fraction(2) ** int(exponent - fmt.significand_bits)
        units = (exact + u * quantum / 2**bits) // quantum
        found.append(float(np.copysign(float(units * quantum), value)))
    return np.array(found, np.float32).reshape(x.shape)


def round_state(training: Training, to: str, step: int, seed: int) -> None:
    """Do with the state of a plain optimizer what OptimizerState does: round it in place, in float32."""
    parameters = [p for group in training.optimizer.param_groups for p in group["params"]]
    for number, parameter in enumerate(parameters):
        state = training.optimizer.state.get(parameter, {})
        tensors = [value for name, value in state.items() if name != "step" and isinstance(value, torch.Tensor)]
        for place, tensor in enumerate(tensors):
            own = (seed + 2**32 * step + 256 * number + place) % 2**64
            tensor.copy_(torch.from_numpy(rounded(tensor.numpy(), to, own)))


def same_state(optimizer: str, compiled: bool, to: str) -> None:
    seed = 2**64 - 2**33
    plain, losses = Training(optimizer, compiled), []
    for step in range(1, 5):
        losses += plain.run(1)
        round_state(plain, to, step, seed)
    held = Training(optimizer, compiled)
    OptimizerState(held.optimizer, to, seed=seed)
    assert held.run(4) == losses
    assert held.bits() == plain.bits()


@pytest.mark.parametrize("to", ["bf16", "bf16:sr16", "e5m2"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_bits_are_those_of_a_state_that_is_rounded_after_each_step(optimizer: str, to: str) -> None:
    same_state(optimizer, False, to)


@pytest.mark.parametrize(("optimizer", "to"), pairs(["SGD", "Adam", "AdamW"], ["bf16", "bf16:sr16", "e5m2"]))
def test_the_same_of_compiled_steps(optimizer: str, to: str) -> None:
    same_state(optimizer, True, to)


def test_momentum_is_that_of_the_formula() -> None:
    parameter = torch.nn.Parameter(torch.zeros(3, 5))
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
    OptimizerState(optimizer, "fp16")
    rng, momentum = np.random.default_rng(0), np.zeros((3, 5), np.float16)
    for step in range(6):
        gradient = rng.standard_normal((3, 5)).astype(np.float32)
        parameter.grad = torch.from_numpy(gradient.copy())
        optimizer.step()
        decayed = np.float32(0.9) * momentum.astype(np.float32)
        momentum = (decayed + gradient if step else gradient).astype(np.float16)
        codes = optimizer.state[parameter]["momentum_buffer"]
        assert codes.dtype == torch.uint16
        assert np.array_equal(codes.numpy(), momentum.view(np.uint16))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_run_goes_on_from_a_checkpoint(compiled: bool) -> None:
    whole, file = Training(compiled=compiled), io.BytesIO()
    OptimizerState(whole.optimizer, "bf16:sr8", seed=5)
    whole.run(3)
    torch.save({"model": whole.model.state_dict(), "optimizer": whole.optimizer.state_dict()}, file)
    losses = whole.run(3)

    file.seek(0)
    checkpoint = torch.load(file, weights_only=True)
    resumed = Training(compiled=compiled)
    OptimizerState(resumed.optimizer, "bf16:sr8", seed=5)
    resumed.model.load_state_dict(checkpoint["model"])
    resumed.optimizer.load_state_dict(checkpoint["optimizer"])
    assert resumed.run(3) == losses
    assert resumed.bits() == whole.bits()

    other = Training(compiled=compiled)
    OptimizerState(other.optimizer, "bf16:sr8", seed=6)
    other.run(6)
    assert other.bits() != whole.bits()

    plain = Training()  # torch itself takes the checkpoint, too
    plain.optimizer.load_state_dict(checkpoint["optimizer"])
    plain.run(1)


def test_a_checkpoint_in_float32_is_rounded() -> None:
    plain, held = Training(), Training()
    plain.run(2)
    OptimizerState(held.optimizer, "bf16")
    held.optimizer.load_state_dict(plain.optimizer.state_dict())
    round_state(plain, "bf16", 0, 0)
    held.model.load_state_dict(plain.model.state_dict())
    assert held.bits() == plain.bits()


def test_the_bytes_of_the_state() -> None:
    def nbytes(state: Any) -> tuple[int, list[Any]]:
        training = Training()
        held = OptimizerState(training.optimizer, state)
        training.run(2)
        kinds = training.optimizer.state[training.model[0].weight]
        return held.bytes, [kinds[name].dtype for name in ("exp_avg", "exp_avg_sq")]

    parameters = 16 * 32 + 32 + 32 * 4 + 4
    steps = 4 * 4
    assert nbytes("bf16") == (steps + 2 * 2 * parameters, [torch.uint16, torch.uint16])
    assert nbytes("e4m3") == (steps + 2 * parameters, [torch.uint8, torch.uint8])
    assert nbytes("fp32") == (steps + 2 * 4 * parameters, [torch.float32, torch.float32])
    per_name = {"exp_avg": "e5m2:sr8", "exp_avg_sq": "fp32"}
    assert nbytes(per_name) == (steps + 5 * parameters, [torch.uint8, torch.float32])
    assert nbytes({"exp_avg_sq": "bf16"}) == (steps + 6 * parameters, [torch.float32, torch.uint16])


def test_between_the_steps_no_memory_holds_the_values() -> None:
    training = Training()
    held = OptimizerState(training.optimizer, "bf16")
    training.run(2)
    assert len(held._held) == 8
    assert all(each.wide.untyped_storage().nbytes() == 0 for each in held._held.values())


def test_the_order_of_dimensions_stays() -> None:
    parameter = torch.nn.Parameter(torch.randn(4, 3, 2, 2).contiguous(memory_format=torch.channels_last))
    optimizer = torch.optim.Adam([parameter])
    OptimizerState(optimizer, "bf16:sr4", seed=9)
    gradient = torch.randn(4, 3, 2, 2)
    parameter.grad = gradient.contiguous(memory_format=torch.channels_last)
    optimizer.step()
    assert optimizer.state[parameter]["exp_avg"].stride() == parameter.stride()
    values = optimizer.state_dict()["state"][0]["exp_avg"]
    first = torch.zeros_like(gradient).lerp_(gradient, 0.1)
    assert values.stride() == parameter.stride()
    assert np.array_equal(values, numc.round(first.numpy(), "bf16:sr4", seed=9 + 2**32))


def test_the_default_dtype_of_torch_does_not_matter() -> None:
    training, same = Training(), Training()
    for each in training, same:
        OptimizerState(each.optimizer, "bf16")
    torch.set_default_dtype(torch.float64)
    try:
        training.run(2)
    finally:
        torch.set_default_dtype(torch.float32)
    same.run(2)
    moments = [each.optimizer.state[each.model[0].weight]["exp_avg"] for each in (training, same)]
    assert torch.equal(*moments)


def test_what_is_prepared_is_not_compiled_again_and_draws_the_same() -> None:
    def run(prepared: bool) -> tuple[list[bytes], bool]:
        training = Training(compiled=True)
        OptimizerState(training.optimizer, "bf16:sr8")
        recipe = numc.train.Static("mp")
        if prepared:
            recipe.prepare(training.step, X, Y)
        before = numc.counters()
        for _ in range(3):
            with recipe:
                loss = training.step(X, Y)
            recipe.update(loss)
        return training.bits(), numc.counters().graphs == before.graphs

    plain, _ = run(False)
    assert run(True) == (plain, True)


def test_a_step_that_fails_changes_no_value() -> None:
    def broken() -> float:
        raise ArithmeticError

    training, same = Training(), Training()
    for each in training, same:
        OptimizerState(each.optimizer, "bf16:sr8")
        each.run(2)
    before = training.bits()
    with pytest.raises(ArithmeticError):
        training.optimizer.step(broken)
    assert training.bits() == before
    assert training.run(2) == same.run(2)
    assert training.bits() == same.bits()


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("bf61", "format 'bf61'"),
        ("highbfp", "a format with groups"),
        (
            "tf32",
            "OptimizerState: state 'tf32': a value has 19 bits, 10 of them significand: want fp32, or a format of",
        ),
        ("bf16x2", "OptimizerState: state 'bf16x2': a value has 32 bits"),
        ("e5m0", "0 of them significand"),
        (16, "OptimizerState: state: got int, want a format, or formats by name"),
        ({}, "OptimizerState: state: got no formats"),
        ({1: "bf16"}, "OptimizerState: state: a name: got int, want a text such as exp_avg"),
        ({"exp_avg": None}, "format: got NoneType, want a text"),
    ],
)
def test_refuses_formats(state: Any, message: str) -> None:
    with pytest.raises(numc.NumcError) as error:
        OptimizerState(Training().optimizer, state)
    assert message in str(error.value)


def test_refuses_optimizers() -> None:
    training = Training()
    with pytest.raises(numc.NumcError, match="OptimizerState: optimizer: got Sequential, want one of torch"):
        OptimizerState(training.model, "bf16")  # type: ignore[arg-type]
    with pytest.raises(numc.NumcError, match="OptimizerState: seed: got -1"):
        OptimizerState(training.optimizer, "bf16", seed=-1)
    OptimizerState(training.optimizer, "bf16")
    with pytest.raises(numc.NumcError, match="the optimizer has one already"):
        OptimizerState(training.optimizer, "bf16")
    elsewhere = torch.optim.Adam([torch.nn.Parameter(torch.zeros(2, device="meta"))])
    with pytest.raises(numc.NumcError, match="a parameter is on meta, want all of them on the CPU"):
        OptimizerState(elsewhere, "bf16")


def test_refuses_what_the_optimizer_does_not_keep() -> None:
    training = Training("SGD")
    OptimizerState(training.optimizer, {"exp_avg": "bf16"})
    with pytest.raises(numc.NumcError, match="OptimizerState: SGD keeps no 'exp_avg': want some of momentum_buffer"):
        training.run(1)
    parameter = torch.nn.Parameter(torch.ones(2, 2))
    parameter.grad = torch.ones(2, 2)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    OptimizerState(optimizer, "bf16")
    with pytest.raises(numc.NumcError, match="OptimizerState: SGD keeps no float32 tensor of the shape of its param"):
        optimizer.step()


def test_refuses_checkpoints_of_other_formats() -> None:
    training, other = Training(), Training()
    OptimizerState(training.optimizer, "bf16:sr8", seed=1)
    training.run(1)
    OptimizerState(other.optimizer, "bf16", seed=1)
    other.run(1)
    before = other.bits()
    with pytest.raises(numc.NumcError, match="checkpoint: its formats is .*bf16:sr8.*, want .*bf16.*: make it as"):
        other.optimizer.load_state_dict(training.optimizer.state_dict())
    damaged = other.optimizer.state_dict()
    damaged["state"]["numc"]["steps"] = "many"
    with pytest.raises(numc.NumcError, match="OptimizerState: checkpoint: steps: got 'many'"):
        other.optimizer.load_state_dict(damaged)
    damaged["state"]["numc"] = 3
    with pytest.raises(numc.NumcError, match="OptimizerState: checkpoint: got int, want what state_dict returns"):
        other.optimizer.load_state_dict(damaged)
    assert other.bits() == before
