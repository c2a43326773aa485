"""Files of torch.export.save: what they hold is read, and nothing that they hold is executed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from numc.frontends.load import load_file  # noqa: E402
from numc.frontends.pytorch import archive, load  # noqa: E402
from numc.support.errors import NumcError  # noqa: E402

Edit = Callable[[dict[str, bytes]], None]
MODEL, WEIGHTS, CONSTANTS, EXAMPLES = (
    "models/model.json",
    "data/weights/model_weights_config.json",
    "data/constants/model_constants_config.json",
    "data/sample_inputs/model.pt",
)


class Model(nn.Module):
    """A free size, a computed size, a constant, no gradients, a name with a space, and a dict as the result."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({"part 1": nn.Linear(4, 3)})

    def forward(self, x: Any, *, scale: Any) -> Any:
        y = self.parts["part 1"](torch.cat([x, x * scale]))
        with torch.no_grad():
            y = y + torch.tensor([1.0, 2.0, 3.0])
        return {"the sum!": (y,)}


@pytest.fixture(scope="module")
def exported() -> Any:
    torch.manual_seed(0)
    rows = {0: torch.export.Dim("rows")}
    return torch.export.export(
        Model(), (torch.randn(5, 4),), {"scale": torch.ones(1)}, dynamic_shapes={"x": rows, "scale": None}
    )


@pytest.fixture(scope="module")
def good(exported: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("good") / "model.pt2"
    torch.export.save(exported, file)
    return file


def edited(good: Path, edit: Edit, file: Path) -> Path:
    """A copy of an archive, its entries (without the top folder) changed by `edit`."""
    with zipfile.ZipFile(good) as archive:
        entries = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    edit(entries)
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in entries.items():
            archive.writestr(f"model/{name}", data)
    return file


def in_json(entry: str, change: Callable[[Any], object]) -> Edit:
    def edit(entries: dict[str, bytes]) -> None:
        content = json.loads(entries[entry])
        change(content)
        entries[entry] = json.dumps(content).encode()

    return edit


def replaced(old: str, new: str) -> Edit:
    """Replace every text `old` of the model."""

    def edit(entries: dict[str, bytes]) -> None:
        before = entries[MODEL]
        entries[MODEL] = before.replace(json.dumps(old).encode(), json.dumps(new).encode())
        assert entries[MODEL] != before

    return edit


@pytest.mark.all
def test_a_file_is_imported_as_torch_would_load_it(good: Path) -> None:
    found, want = load_file(good), load.load(torch.export.load(good))
    assert found.mlir == want.mlir
    assert (found.inputs, found.outputs, found.nodes, found.ranges) == (
        want.inputs, want.outputs, want.nodes, want.ranges
    )  # fmt: skip
    assert {n: name for n, (name, _) in found.weights.items()} == {n: name for n, (name, _) in want.weights.items()}
    assert all((value == want.weights[n][1]).all() for n, (_, value) in found.weights.items())
    assert found.sources == (str(good),)


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def pickled(mark: Path) -> bytes:
    stream = io.BytesIO()
    torch.save((Payload(mark),), stream)
    return stream.getvalue()


def test_example_inputs_are_left_out(good: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    file = edited(good, lambda entries: entries.update({EXAMPLES: pickled(mark)}), tmp_path / "m.pt2")
    assert load_file(file).mlir == load_file(good).mlir
    assert not mark.exists()
    with contextlib.suppress(Exception):  # the payload works: torch itself runs it, and then misses the inputs
        torch.export.load(file)
    assert mark.exists()


IS_CODE = (
    "; numc takes operations of aten, nms and roi_align of torchvision, names of letters, digits and _.-/, and lists, "
    "tuples and dicts of tensors"
)


def use_pickle(config: Any) -> None:
    config["config"]["parts.part 1.weight"]["use_pickle"] = True


def custom_object(config: Any) -> None:
    next(iter(config["config"].values()))["path_name"] = "custom_obj_0"


def opaque_object(config: Any) -> None:
    next(iter(config["config"].values()))["path_name"] = "opaque_obj_0"


# What a file does -> how it is changed, given the file that its code would create, and what the error says.
ATTACKS: dict[str, tuple[Callable[[str], Edit], str]] = {
    "a pickled weight": (
        lambda mark: in_json(WEIGHTS, use_pickle),
        "'parts.part 1.weight' is stored as a pickle, which is code: numc reads plain tensors only; make it a "
        "torch.Tensor, not one of a class derived from it, and export again",
    ),
    "a custom object": (lambda mark: in_json(CONSTANTS, custom_object), "is stored as a pickle, which is code"),
    "an opaque object": (lambda mark: in_json(CONSTANTS, opaque_object), "is stored as a pickle, which is code"),
    "a size": (
        lambda mark: in_json(
            MODEL,
            lambda program: next(
                size
                for value in program["graph_module"]["graph"]["tensor_values"].values()
                for size in value["sizes"]
                if "as_expr" in size
            )["as_expr"].update(expr_str=f"__import__('os').mkdir('{mark}')"),
        ),
        "the size '__import__(\\'os\\')",
    ),
    "an operation": (
        lambda mark: replaced("torch.ops.aten.linear.default", "torch.os.mkdir"),
        f"the operation 'torch.os.mkdir' is not one that numc reads: it could be code{IS_CODE}",
    ),
    "an operation on files": (
        lambda mark: replaced("torch.ops.aten.linear.default", "torch.ops.aten.from_file.default"),
        "the operation 'torch.ops.aten.from_file.default' is not one",
    ),
    "a name": (
        lambda mark: replaced("x", f"x=__import__('os').mkdir('{mark}')"),
        "the name 'x=__import__(\\'os\\')",
    ),
    "a type of the result": (
        lambda mark: lambda entries: entries.update(
            {MODEL: entries[MODEL].replace(b'\\"builtins.tuple\\"', b'\\"collections.defaultdict\\"')}
        ),
        "the structure of the",
    ),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_torch_would_execute_is_refused(attack: str, good: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    edit, text = ATTACKS[attack]
    file = edited(good, edit(str(mark)), tmp_path / "m.pt2")
    with pytest.raises(NumcError) as caught:
        archive.cleaned(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert text.replace("\\'", "'") in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not mark.exists()


def test_old_files(good: Path, tmp_path: Path) -> None:
    def weights(entries: dict[str, bytes]) -> None:
        entries["data/weights/model.pt"] = entries.pop(WEIGHTS)

    again = "which are code: load it with torch.export.load, if you trust it, and save it again"
    with pytest.raises(NumcError, match=f"was written by an old PyTorch, with pickled tensors, {again}"):
        archive.cleaned(edited(good, weights, tmp_path / "m.pt2"))
    with zipfile.ZipFile(tmp_path / "old.pt2", "w") as old:
        old.writestr("serialized_exported_program.json", "{}")
    with pytest.raises(NumcError, match=f"was written by an old PyTorch, with pickled weights, {again}"):
        archive.cleaned(tmp_path / "old.pt2")


def test_damaged_files(good: Path, tmp_path: Path) -> None:
    file = tmp_path / "m.pt2"
    file.write_bytes(good.read_bytes()[:1000])
    with pytest.raises(NumcError, match=r"cannot read: no archive, or truncated or damaged \(.*\): want a file"):
        archive.cleaned(file)
    with zipfile.ZipFile(file, "w") as other:
        other.writestr("model/data/weights/x", "")
    with pytest.raises(NumcError, match="holds no exported program: want a file that torch.export.save wrote"):
        archive.cleaned(file)
    edited(good, lambda entries: entries.update({MODEL: b"[" * 100_000}), file)
    with pytest.raises(NumcError, match=r"cannot read: damaged \(ValueError: nested too deeply\): want"):
        archive.cleaned(file)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("model/models/model.json", bytes(1 << 20))
    with pytest.raises(NumcError, match=r"cannot read: damaged \(ValueError: compressed entries\)"):
        archive.cleaned(file)


@pytest.mark.all
def test_changed_bytes_raise_numc_errors_only(good: Path, tmp_path: Path) -> None:
    """Whatever the worker meets: a CompilerBug would be an exception that nobody foresaw."""
    rng, file, refused = random.Random(0), tmp_path / "m.pt2", 0
    with zipfile.ZipFile(good) as archive:
        size = len(archive.read(next(name for name in archive.namelist() if name.endswith(MODEL))))
    for _ in range(20):
        places = [rng.randrange(size) for _ in range(2)]

        def edit(entries: dict[str, bytes], places: list[int] = places) -> None:
            data = bytearray(entries[MODEL])
            for place in places:
                data[place] = rng.randrange(32, 127)
            entries[MODEL] = bytes(data)

        with contextlib.suppress(NumcError):
            load_file(edited(good, edit, file))
            continue
        refused += 1
    assert refused > 5
