"""A program for GPUs as a user has it: tensors go in and come out, on the device where they are."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import io
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from numc.runtime.abi import Input, TensorSpec
from numc.runtime.container import Contents
from numc.runtime.context import CONTEXT
from numc.runtime.described import Described
from numc.runtime.gpu.archive_names import CONSTANTS, TEXT
from numc.runtime.tensors import in_dtype, is_tensor
from numc.runtime.widths import WidthByRatio, choose
from numc.support.arguments import checked_integer
from numc.support.errors import NumcError, did_you_mean, quoted

_NEEDS = "pip install 'numc[gpu]'"


class GpuProgram(Described):
    """A program for GPUs. Calling it runs its Python text and its kernels: load only files that you trust.

    It takes and gives torch's tensors, all on one device. On a GPU its kernels run on torch's current stream. On the
    CPU, which is asked for by ``program.to("cpu")``, they are emulated: the same text, bit for bit, and slowly.
    """

    def __init__(self, contents: Contents, device: str | None = None) -> None:
        """device: a device of torch; None: the GPU that torch uses, when it is first needed."""
        self._contents, self._device = contents, device
        self._module: ModuleType | None = None
        self._held: list[Any] | None = None
        self._constants: list[Any] = []
        self._runs = 0
        self._captured: list[Any] = []
        self._elsewhere: dict[str, GpuProgram] = {}

    @property
    def text(self) -> str:
        """The Python text of the program: its kernels, and the function that launches them."""
        return _files(self._contents.code)[TEXT].decode()

    def to(self, device: Any) -> GpuProgram:
        """Return the same program on a device of torch: ``cuda``, ``cuda:1``, or ``cpu``, where it is emulated."""
        return GpuProgram(self._contents, str(device))

    def __call__(self, *args: Any, seed: int | None = None, widths: Any = None, **named: Any) -> Any:
        """Run. Returns a tensor, or a dict of several by name.

        seed: of stochastic rounding, 0 to 2^64 - 1. Without one, every run draws other random bits. Raises NumcError
        for inputs that are missing, unknown, of another dtype or shape or on another device, and where no GPU is.
        """
        results = self.run(self._in_order(args, named), seed=seed, widths=widths)
        if len(results) == 1:
            return results[0]
        return {spec.name: result for spec, result in zip(self.outputs, results, strict=True)}

    def run(
        self, values: Sequence[Any], *, seed: int | None = None, widths: Any = None, launches: list[Any] | None = None
    ) -> list[Any]:
        """Run on the inputs in order; returns all results in order. Raises NumcError as a call does.

        launches: receives every kernel that is launched, with its arguments and constants.
        """
        if CONTEXT.watches:
            raise NumcError(
                "target 'cuda': statistics, profiles and verification observe programs for target 'host', which have "
                "the same bits: compile for it, or run the model through torch.compile"
            )
        module = self._loaded()
        capturing = is_capturing(self._place())
        if capturing:
            self._check_capture(seed)
        from numc.runtime.gpu.launching import Run

        torch = sys.modules["torch"]
        tensors = [self._checked(spec, value) for spec, value in zip(self.inputs, values, strict=True)]
        step = 0
        if seed is None:
            step, self._runs = self._runs, self._runs + 1
        run = Run(
            device=torch.device(self._place()),
            constants=self._constants,
            messages=module.MESSAGES,
            seed=0 if seed is None else checked_integer(seed, "seed", 0, 2**64 - 1),
            step=step,
            widths=[_packed(*chosen) for chosen in self._chosen(widths)],
            launches=launches,
        )
        assert self._held is not None
        with torch.cuda.device(run.device) if run.device.type == "cuda" else nullcontext():
            results = list(module.main(run, *tensors, *self._held))
            if capturing:
                self._captured.append(run)
            else:
                run.finish()
        for number, source in self._contents.abi.updates.items():  # an input that is updated is the result
            if is_tensor(values[source]):
                results[number] = _updated(values[source], results[number])
        return results

    def run_where(self, values: Sequence[Any], *, seed: int | None, widths: Any) -> list[Any]:
        """Run on the device where the first tensor with dimensions is; numbers, in tensors without, are moved there."""
        device = str(next((v.device for v in values if v.dim()), values[0].device if values else "cpu"))
        there = self._elsewhere.setdefault(device, self if self._device in (None, device) else self.to(device))
        there._device = device
        moved = [value if value.dim() else value.to(device) for value in values]
        return there.run(moved, seed=seed, widths=widths)

    def check(self) -> None:
        """Wait for the last replay of each CUDA graph with runs of this program.

        Raises NumcError for what a kernel found wrong, such as an index that a table does not have: a run checks this
        itself, the replay of a captured one cannot.
        """
        for program in {id(each): each for each in (self, *self._elsewhere.values())}.values():
            for run in program._captured:
                run.finish()

    def _check_capture(self, seed: int | None) -> None:
        """Raise NumcError for what a CUDA graph would capture wrongly."""
        if ".item()" in self.text:
            raise NumcError(
                "target 'cuda': sizes or steps of this program depend on data that the host reads, which a CUDA graph "
                "cannot capture: leave it out of the graph"
            )
        if seed is None and "run.stream(" in self.text:
            raise NumcError(
                "target 'cuda': this program draws random bits, which would be the same in every replay of a CUDA "
                "graph: give a seed if that is wanted, or leave it out of the graph"
            )

    def finds(self, widths: Any) -> bool:
        """Whether a run with these widths would have to find one, which no run on a GPU does."""
        return any(isinstance(each, WidthByRatio) for each in choose(self.widths, widths))

    def _chosen(self, widths: Any) -> list[tuple[int, int]]:
        """The open widths of a run. Raises NumcError for those that a run finds out."""
        seen = []
        for each, range_ in zip(choose(self.widths, widths), self.widths, strict=True):
            if isinstance(each, WidthByRatio):
                raise NumcError(
                    f"widths: layer {quoted(range_.layer)}: target 'cuda' finds no widths itself: give numbers, or run "
                    "the model through torch.compile"
                )
            seen.append(each)
        return seen

    # Loading

    def _place(self) -> str:
        torch = sys.modules["torch"]
        if self._device is None:
            if not torch.cuda.is_available():
                raise NumcError(
                    "target 'cuda': torch finds no GPU here: use program.to('cpu'), which emulates its kernels, or "
                    "compile for target 'host'"
                )
            self._device = f"cuda:{torch.cuda.current_device()}"
        return self._device

    def _loaded(self) -> ModuleType:
        """The module of the text, imported, and weights and constants on the device."""
        if self._module is not None:
            return self._module
        torch = needed_torch()
        device = self._place()
        if device == "cpu":
            check_emulator()
        if is_capturing(device):
            raise NumcError(
                "target 'cuda': a CUDA graph captures the first run of this program, which loads its kernels: run it "
                "once before, on inputs of the same sizes"
            )
        files = _files(self._contents.code)
        module = load_text(files[TEXT].decode(), emulated=device == "cpu")
        arrays = [np.load(io.BytesIO(files[name])) for name in _numbered(files)]
        self._constants = [torch.from_numpy(array).to(device) for array in arrays]
        self._held = [
            _tensor(torch, np.asarray(weight), spec.shape).to(device)
            for weight, spec in zip(self._contents.weights, self._contents.abi.weights, strict=True)
        ]
        self._module = module
        return module

    # Inputs

    def _in_order(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        if len(args) == 1 and not named and isinstance(args[0], Mapping):
            return self._in_order((), args[0])
        names = [spec.name for spec in self.inputs]
        for name in named:
            if name not in names:
                raise NumcError(
                    f"unknown input {quoted(name)}{did_you_mean(name, names)}: inputs are {', '.join(names)}"
                )
        by_name = dict(zip(names, args, strict=False)) | dict(named)
        missing = [name for name in names if name not in by_name]
        if missing or len(args) > len(names):
            raise NumcError(f"inputs are {', '.join(names) or 'none'}: got {len(args) + len(named)} of {len(names)}")
        return [by_name[name] for name in names]

    def _checked(self, spec: Input, value: Any) -> Any:
        """The tensor of an input on the device. Raises NumcError for another dtype, shape or device."""
        torch = sys.modules["torch"]
        what, device = f"input {quoted(spec.name)}", torch.device(self._place())
        tensor = value if is_tensor(value) else _tensor(torch, in_dtype(np.asarray(value), spec.dtype), None)
        if is_tensor(value) and tensor.device != device:
            raise NumcError(f"{what}: on device {tensor.device}, and the program runs on {device}: use .to('{device}')")
        seen = TensorSpec(spec.name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
        fits = len(seen.shape) == len(spec.shape) and all(
            want is None or got == want for got, want in zip(seen.shape, spec.shape, strict=True)
        )
        if seen.dtype != spec.dtype or not fits:
            raise NumcError(f"{what}: got {seen}, want {spec}")
        return tensor.detach().to(device).contiguous()


def is_capturing(device: str) -> bool:
    """Whether torch's current stream on a device captures a CUDA graph."""
    return device.startswith("cuda") and bool(sys.modules["torch"].cuda.is_current_stream_capturing())


def needed_torch() -> Any:
    """Return torch, with Triton there. Raises NumcError where one of them is missing or too old."""
    try:
        import torch
        import triton
    except ImportError as error:
        raise NumcError(f"target 'cuda' needs PyTorch and Triton, and there is no {error.name}: {_NEEDS}") from None
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if version < LEAST_TRITON:
        wanted = ".".join(map(str, LEAST_TRITON))
        raise NumcError(f"target 'cuda' needs Triton {wanted} or later, this is {triton.__version__}: {_NEEDS}")
    return torch


LEAST_TRITON = (3, 6)
"""The first version with all that kernels are written with."""


def check_emulator() -> None:
    """Raise NumcError if Triton's interpreter rounds an FMA twice, as earlier ones do."""
    import triton
    from triton._C.libtriton import interpreter

    if not hasattr(interpreter, "fma_fp32"):
        raise NumcError(
            f"target 'cuda': Triton {triton.__version__} has no fused multiply-add in its interpreter, which emulates "
            "GPUs on the CPU: want 3.9 or later"
        )


def load_text(text: str, *, emulated: bool) -> ModuleType:
    """Import the text of a program from a file of this process, where Triton and a debugger can read it.

    emulated: its kernels run in Triton's interpreter, on the CPU.
    """
    import triton

    key = hashlib.sha256(text.encode()).hexdigest()[:24]
    name = f"numc_gpu_{'emulated_' * emulated}{key}"
    if name in sys.modules:
        return sys.modules[name]
    path = Path(_folder().name) / f"{key}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = triton.knobs.runtime.interpret
    triton.knobs.runtime.interpret = emulated
    try:
        spec.loader.exec_module(module)
    finally:
        triton.knobs.runtime.interpret = before
    sys.modules[name] = module
    return module


def _updated(tensor: Any, result: Any) -> Any:
    """A tensor that holds a result; it is often the memory of the result already."""
    if tensor.data_ptr() != result.data_ptr():
        tensor.detach().copy_(result)
    return tensor


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """A folder that goes with the process."""
    return tempfile.TemporaryDirectory(prefix="numc-gpu-")


def _packed(exponent: int, significand: int) -> int:
    """Widths in one word, as kernels take them (runtime/src/program/container.hpp)."""
    return exponent << 32 | significand


def _files(code: bytes) -> dict[str, bytes]:
    """The files of the archive that the code is. Raises NumcError if it is damaged."""
    try:
        with zipfile.ZipFile(io.BytesIO(code)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, ValueError) as error:
        raise NumcError(f"program: its code is damaged ({error})") from None


def _numbered(files: Mapping[str, bytes]) -> list[str]:
    return [name for n in range(len(files)) if (name := CONSTANTS.format(n)) in files]


def _tensor(torch: Any, array: np.ndarray, shape: Sequence[int | None] | None) -> Any:
    """An array as a tensor, of dtypes that numpy lacks too."""
    name = array.dtype.name
    if not hasattr(np, name) and hasattr(torch, name):
        array = array.view(f"int{8 * array.dtype.itemsize}")
        return torch.from_numpy(np.array(array)).view(getattr(torch, name))
    return torch.from_numpy(np.array(array) if shape is None else np.array(array).reshape(shape))
