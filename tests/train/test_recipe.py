"""A recipe around the steps of a small network."""

from __future__ import annotations

import copy
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812

import numc  # noqa: E402
from numc.runtime.context import CONTEXT  # noqa: E402
from numc.train import Decision, DynamicPrecision, Recipe, Static  # noqa: E402

X, Y = torch.linspace(-2, 2, 24 * 8).reshape(24, 8), torch.arange(24) % 4


class Alternating(Recipe):
    """Takes its arithmetics in turn."""

    needs_loss = False

    def decide(self, loss):
        names = list(self.arithmetics)
        return names[(self.step + 1) % len(names)], {}, "its turn"


class Training:
    """A network, an optimizer with a state, and their compiled step."""

    def __init__(self, *, dropout: float = 0.0, adam: bool = True) -> None:
        torch.manual_seed(0)
        layers = torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Dropout(dropout), torch.nn.Linear(16, 4)
        self.model = torch.nn.Sequential(*layers)
        parameters = self.model.parameters()
        self.optimizer = torch.optim.Adam(parameters) if adam else torch.optim.SGD(parameters, lr=0.1)
        self.step = torch.compile(self.run, backend=numc.backend())

    def run(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def weights(self) -> list[np.ndarray]:
        return [p.detach().numpy().copy() for p in self.model.parameters()]


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(np.array_equal(a.view(np.int32), b.view(np.int32)) for a, b in zip(one, other, strict=True))


@pytest.fixture(autouse=True)
def _traced_anew() -> None:
    """torch traces one function for a limited number of optimizers."""
    torch._dynamo.reset()


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.5),
    "adam": lambda p: torch.optim.AdamW(p, amsgrad=True),
    "adagrad": torch.optim.Adagrad,
}


@pytest.mark.parametrize("name", ["sgd", *(pytest.param(n, marks=pytest.mark.slow) for n in OPTIMIZERS if n != "sgd")])
def test_states_of_optimizers_are_made_as_without_prepare(name) -> None:
    """Nothing is traced again, though the optimizer makes its state once more, and the weights get the same bits."""
    found = []
    for prepared in (True, False):
        one = Training(dropout=0.25)
        one.optimizer = OPTIMIZERS[name](list(one.model.parameters()))
        recipe = Alternating(["fp32", "bf16_1_1"])
        before = str(one.optimizer.state_dict())
        if prepared:
            recipe.prepare(one.step, X, Y)
        assert str(one.optimizer.state_dict()) == before
        counted = numc.counters()
        for _ in range(4):
            with recipe:
                one.step(X, Y)
            recipe.update()
        assert not prepared or numc.counters().graphs == counted.graphs
        found.append(one.weights())
    assert same(*found)


@pytest.fixture(scope="module")
def training() -> Training:
    return Training(dropout=0.25)


def test_preparing_leaves_no_trace_and_nothing_to_compile(training) -> None:
    recipe = Alternating(["fp32", "bf16_1_1", "fma(a=bf16,acc=e6m9:sr8) with update=fp32"])
    before = copy.deepcopy((training.weights(), training.model.state_dict(), training.optimizer.state_dict()))
    generators = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    training.model.train()
    recipe.prepare(training.step, X, Y)
    assert same(training.weights(), before[0])
    assert training.optimizer.state_dict() == before[2]
    assert all(p.grad is None for p in training.model.parameters())
    assert torch.equal(torch.get_rng_state(), generators[0])
    assert (np.random.get_state()[1] == generators[1]).all()
    assert random.getstate() == generators[2]

    counted = numc.counters()
    torch.manual_seed(1)
    for _ in range(7):
        with recipe:
            training.step(X, Y)
        recipe.update()
    found = numc.counters()
    assert found.calls > counted.calls
    found.calls = counted.calls
    assert found == counted, "something was traced or compiled after prepare"
    assert [d.used for d in recipe.history] == [list(recipe.arithmetics)[n % 3] for n in range(7)]

    # In the middle of a training, the state of Adam is there already.
    states = copy.deepcopy(training.optimizer.state_dict()["state"])
    weights = training.weights()
    recipe.prepare(training.step, X, Y, keep=[training.model, training.optimizer])
    assert same(training.weights(), weights)
    for number, state in training.optimizer.state_dict()["state"].items():
        assert all(torch.equal(state[name], states[number][name]) for name in state)


def test_bits_are_those_of_the_arithmetic_of_each_step() -> None:
    names = ["fp32", "bf16_1_1"]
    one, other = Training(adam=False), Training(adam=False)
    recipe = Alternating(names)
    for n in range(4):
        with recipe:
            one.step(X, Y)
        recipe.update()
        with numc.arithmetic(names[n % 2]):
            other.step(X, Y)
        assert same(one.weights(), other.weights()), n
    assert not same(one.weights(), Training(adam=False).weights())


SCRIPT = """
import sys, torch, numc
sys.path.insert(0, {folder!r})
from test_recipe import Alternating, Training, X, Y
from numc.train import DynamicPrecision

mode, checkpoint, steps = sys.argv[1], sys.argv[2], 9
training = Training(dropout=0.25)
stochastic = "fma(a=bf16,acc=e6m9:sr8) with update=fp32"
recipe = DynamicPrecision("fp32", stochastic, monitor=1, block=2, threshold=-1, log=checkpoint + "." + mode + ".jsonl")
if mode == "resumed":
    state = torch.load(checkpoint)
    recipe.load_state_dict(state["recipe"])
    training.model.load_state_dict(state["model"])
    training.optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["generator"])
for n in range(recipe.step, steps):
    with recipe:
        loss = training.step(X, Y)
    recipe.update(loss)
    if mode == "killed" and n % 3 == 0:
        parts = {{"recipe": recipe, "model": training.model, "optimizer": training.optimizer}}
        state = {{name: part.state_dict() for name, part in parts.items()}}
        torch.save({{**state, "generator": torch.get_rng_state()}}, checkpoint)
    if mode == "killed" and n == 7:
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
print(repr(list(recipe.history)), [w.tobytes().hex() for w in training.weights()])
"""


@pytest.mark.slow
def test_a_run_killed_between_steps_goes_on_as_if_it_had_not_been(tmp_path) -> None:
    script = tmp_path / "run.py"
    script.write_text(SCRIPT.format(folder=os.path.dirname(__file__)))
    found = {}
    for mode in ("whole", "killed", "resumed"):
        command = [sys.executable, script, mode, tmp_path / "checkpoint.pt"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        assert done.returncode == (-signal.SIGKILL if mode == "killed" else 0), done.stderr
        found[mode] = done.stdout
    assert found["resumed"] == found["whole"]
    logs = [(tmp_path / f"checkpoint.pt.{mode}.jsonl").read_text() for mode in ("whole", "resumed", "killed")]
    assert logs[0] == logs[1]
    assert logs[0].startswith(logs[2])
    assert len(logs[2].splitlines()) == 8, "a killed run keeps what it wrote"


@pytest.mark.slow
def test_all_ranks_decide_alike(tmp_path) -> None:
    """Two processes with different losses: one of them would decide otherwise on its own."""
    said = _two_ranks(
        tmp_path,
        """
        recipe = DynamicPrecision("mp", "bf16_1_1", monitor=1, block=3, threshold=0.06)
        for n in range(30):
            with recipe:
                pass
            recipe.update(3 / (n + 1) + (0.3 * (n % 4) if rank else 0.1 / (n + 3)))
        print(list(recipe.history))
        """,
    )
    assert "stays low" in said
    assert "goes up" in said


@pytest.mark.slow
def test_all_ranks_normalise_alike(tmp_path) -> None:
    """Two processes with different batches have the same R, loss scale and weights."""
    said = _two_ranks(
        tmp_path,
        """
        layers = nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)
        torch.manual_seed(0)
        model = nn.Sequential(*layers)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        recipe = TrainBF(model, optimizer, torch.ones(6, 4), layers=["2"], steps=8)
        parallel = nn.parallel.DistributedDataParallel(model)
        torch.manual_seed(rank)
        for n in range(4):
            optimizer.zero_grad()
            with recipe:
                loss = parallel(torch.randn(6, 4)).square().mean()
                recipe.scaled(loss).backward()
                recipe.step_optimizer()
            recipe.update(loss)
        (range_,) = recipe.ranges.values()
        assert range_ > 1
        print(range_, [decision.reason for decision in recipe.history])
        print([parameter.tolist() for parameter in model.parameters()])
        """,
    )
    assert "nan" not in said


def test_two_ranks_have_the_largest_magnitudes_of_both(tmp_path) -> None:
    """The second rank's rows are larger; each sees its own, and both have one scale."""
    said = _two_ranks(
        tmp_path,
        """
        from numc.train import DelayedScaling
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 3))
        recipe = DelayedScaling(model, history=2)
        with recipe:
            model(torch.full((2, 4), 1.0 + rank)).sum().backward()
        recipe.update()
        print(float(model[0].scale[0]))
        """,
    )
    assert float(said) == 224


def _two_ranks(folder: Path, lines: str) -> str:
    """Return what two processes of a distributed training print, after seeing that it is the same."""
    head = """
        import sys, torch, torch.distributed as dist
        from torch import nn
        from numc.train import DynamicPrecision, TrainBF
        rank, place = int(sys.argv[1]), sys.argv[2]
        dist.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=2)
        """
    script = folder / "rank.py"
    script.write_text(textwrap.dedent(head) + textwrap.dedent(lines) + "dist.destroy_process_group()\n")
    command = [sys.executable, str(script)]
    ranks = [
        subprocess.Popen([*command, str(n), str(folder / "store")], stdout=subprocess.PIPE, text=True) for n in (0, 1)
    ]
    texts = [rank.communicate()[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert texts[0] == texts[1]
    return texts[0]


def test_the_loss_of_a_criterion_in_a_compiled_step(training) -> None:
    class Criterion(torch.nn.Module):
        def forward(self, x, y):
            return F.cross_entropy(x, y)

    criterion = Criterion()

    @torch.compile(backend=numc.backend())
    def step(x, y):
        training.optimizer.zero_grad()
        loss = criterion(training.model(x), y)
        loss.backward()
        training.optimizer.step()
        return loss

    recipe = DynamicPrecision("fp32", "bf16_1_1", monitor=1, block=2)
    recipe.watch(criterion)
    for n in range(3):
        with recipe:
            loss = step(X, Y)
        assert recipe.update().values["loss"] == float(loss), n
    with pytest.raises(numc.NumcError, match="watch: got Adam, want a module that returns the loss"):
        recipe.watch(training.optimizer)


def test_wrong_use_is_an_error_and_loses_nothing(training) -> None:
    recipe = DynamicPrecision("fp32", "bf16_1_1", monitor=1, block=2)
    for loss in (3.0, 2.0):
        with recipe:
            pass
        recipe.update(loss)
    history = list(recipe.history)

    def refused(text, call, *given, **named) -> None:
        with pytest.raises(numc.NumcError) as error:
            call(*given, **named)
        assert text in str(error.value)
        assert list(recipe.history) == history

    refused("update without a step: run the step in `with recipe:` first", recipe.update, 1.0)
    with recipe:
        refused("update inside of the block: leave the block first", recipe.update, 1.0)
        refused("the block of this recipe is open already: a step has one recipe", recipe.__enter__)
        refused("Static: the block of a DynamicPrecision is open already", Static("mp").__enter__)
        refused("prepare inside of a recipe's block: call it before training", recipe.prepare, training.step, X, Y)
        refused("a checkpoint inside of the block", recipe.state_dict)
    assert CONTEXT.arithmetics == []
    refused("update needs the loss of the step: update(loss), or watch(criterion) before", recipe.update)
    refused("loss: got a tensor of torch.float32 with the shape (24, 8), want one real number", recipe.update, X)
    refused("loss: got '1.0', want a number, or a tensor with one element", recipe.update, "1.0")
    refused("prepare: got None, want the function that runs a step", recipe.prepare, None)
    refused("prepare: got int, want a function", recipe.prepare, 3)
    refused("the step refers to no module and no optimizer: name what it changes, keep=", recipe.prepare, print)
    refused("keep: got int, want objects with state_dict and load_state_dict", recipe.prepare, print, keep=[3])
    state = recipe.state_dict()
    refused("its recipe is DynamicPrecision, want Static", Static("fp32").load_state_dict, state)
    refused("its version is 2, want 1", recipe.load_state_dict, {**state, "version": 2})
    refused("its arithmetics is", DynamicPrecision("mp", "bf16_1_1").load_state_dict, state)
    refused("its options is", DynamicPrecision("fp32", "bf16_1_1", monitor=1, block=4).load_state_dict, state)
    refused("checkpoint: got list, want what state_dict returns", recipe.load_state_dict, [])
    for key in ("history", "state", "next"):
        damaged = {**state, key: {"level": 7} if key == "state" else "x"}
        refused("damaged checkpoint", recipe.load_state_dict, damaged)
        missing = {name: value for name, value in state.items() if name != key}
        refused("damaged checkpoint", recipe.load_state_dict, missing)
    with pytest.raises(numc.NumcError, match="not a decision of a recipe"):
        Decision.from_json(json.dumps({"step": "x", "hex": {}}))
    with recipe:
        pass
    recipe.update(1.0)
    assert list(recipe.history)[:2] == history


def test_every_block_of_a_step_draws_anew() -> None:
    compiled = torch.compile(torch.nn.Linear(8, 64), backend=numc.backend())
    drawn = []
    for _ in range(2):
        recipe = Static("fma(a=bf16,acc=e6m9:sr4)")
        for _ in range(2):
            for _ in range(2):
                with recipe:
                    drawn.append(compiled(X).detach().numpy().tobytes())
            recipe.update()
    assert drawn[:4] == drawn[4:]
    assert len(set(drawn)) == 4


def test_shares_of_multiply_adds() -> None:
    """Those of a step are the multiply-adds of three products each way, and of the update, which stays in fp32."""
    one = Training(adam=False)
    recipe = Alternating(["fp32", "bf16_1_1 with update=fp32"])
    for _ in range(3):
        with recipe:
            one.step(X, Y)
        recipe.update()
    forward = 24 * (8 * 16 + 16 * 4)
    backward = 24 * (8 * 16 + 2 * 16 * 4)  # the first layer has no gradient of its input
    update = 8 * 16 + 16 + 16 * 4 + 4
    assert recipe.fmas[("update", "fp32")] == 3 * update
    low = sum(count for (role, fma), count in recipe.fmas.items() if fma == "bf16_1_1" and role != "softmax")
    assert low == forward + backward
    total = sum(recipe.fmas.values())
    assert recipe.fma_shares()["bf16_1_1"] == sum(c for (_, f), c in recipe.fmas.items() if f == "bf16_1_1") / total
    other = Alternating(["fp32", "bf16_1_1 with update=fp32"])
    other.load_state_dict(json.loads(json.dumps(recipe.state_dict())))
    assert other.fmas == recipe.fmas


def test_a_smaller_last_batch_counts() -> None:
    """torch makes the number of rows free when it changes: contractions are counted by those of each step."""
    one = Training(adam=False)
    recipe = Static("bf16_1_1")
    for rows in (24, 24, 5):
        before = Counter(recipe.fmas)
        with recipe:
            one.step(X[:rows], Y[:rows])
        recipe.update()
        counted = {role: (Counter(recipe.fmas) - before)[role, "bf16_1_1"] for role in ("forward", "dgrad", "wgrad")}
        products = rows * 16 * 4
        assert counted == {"forward": rows * 8 * 16 + products, "dgrad": products, "wgrad": rows * 8 * 16 + products}


def test_an_interrupted_step_does_not_count(training) -> None:
    recipe = Static("bf16_1_1")
    with pytest.raises(KeyboardInterrupt), recipe:
        raise KeyboardInterrupt
    with pytest.raises(numc.NumcError, match="update without a step"):
        recipe.update()
    with recipe:
        assert CONTEXT.arithmetics == [recipe.current]
    assert recipe.update(torch.tensor(2.0, dtype=torch.bfloat16)).values == {"loss": 2.0}
    assert recipe.update.__doc__
    assert recipe.step_shares() == {"bf16_1_1": 1.0}


def test_a_log_that_cannot_be_written_keeps_the_history_in_memory(tmp_path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    recipe = Static("fp32", log=folder / "run.jsonl")
    (folder / "run.jsonl").mkdir()
    with recipe:
        pass
    with pytest.raises(numc.NumcError, match="run.jsonl: cannot write"):
        recipe.update(1.0)
    assert len(recipe.history) == 1
