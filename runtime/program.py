"""Programs: compiled models that are ready to run, from a file or from the compiler."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import dataclasses
import importlib
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from numc.numerics.dtypes import BITS_DTYPES
from numc.runtime.abi import Input, TensorSpec, encode_abi
from numc.runtime.caller import caller, dense_tensors
from numc.runtime.container import Contents, read_program_and_abi
from numc.runtime.context import CONTEXT
from numc.runtime.described import Described
from numc.runtime.gpu.archive_names import CUDA
from numc.runtime.library import ErrorText, Observer, RunOptions, library
from numc.runtime.tensors import (
    any_tensor,
    array_dtype,
    as_array,
    bits_dtype,
    dense,
    in_dtype,
    is_tensor,
    to_tensor,
    torch_dtype,
)
from numc.runtime.widths import Options
from numc.support.arguments import checked_integer
from numc.support.environment import DefaultEnvironment, in_default_environment
from numc.support.errors import FAULT, CompilerBug, NumcError, did_you_mean, quoted
from numc.support.files import checked_path

if TYPE_CHECKING:
    from numc.runtime.abi import Array
    from numc.runtime.gpu.gpu_program import GpuProgram

#: Called with (kernel id, address of what its tasks read, phase): in phase 0 before the kernel runs, in phase 1 after.
Callback = Callable[[int, int, int], None]


_MOST_THREADS = 1024

#: What a run returns in which NUMC_CHECK found something (numc.h).
CHECK_FAILED = -4


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names)) or "none"


class Program(Described):
    """A compiled model. Calling it runs its machine code in this process: load only files that you trust.

    Inputs are arrays by position or by name, exactly of the dtype and shape in `inputs`; a dimension of None takes any
    size. One output comes back as an array, several as a dict by name; as torch tensors if an input was one. Calls from
    several threads at once are fine. A program writes only into the inputs that its model updates, such as a cache:
    after a run they hold their new values, which are also among the outputs. They have to be arrays or tensors, and to
    share no memory with other inputs. After a run that fails, their values are not defined.

        program = numc.runtime.load("model.numc")
        y = program(x)                      # or program(x=x), or program({"x": x})
    """

    def __init__(self, contents: Contents) -> None:
        """Load a program from memory. Raises NumcError if this CPU cannot run it, CompilerBug if its code is broken."""
        weights = tuple(np.ascontiguousarray(w) if w.ndim else w for w in contents.weights)
        self._set_up(dataclasses.replace(contents, weights=weights), encode_abi(contents.abi, weights), None)

    @classmethod
    def _of_file(cls, contents: Contents, abi: bytes, path: Path) -> Program:
        program = cls.__new__(cls)
        program._set_up(contents, abi, os.fsencode(path))
        return program

    def _set_up(self, contents: Contents, abi: bytes, path: bytes | None) -> None:
        if contents.abi.target == CUDA:
            raise NumcError(
                "target 'cuda': its programs run from Python, on tensors: numc.compile(..., target='cuda') or numc.load"
            )
        self._contents = contents
        weights = contents.weights  # the runtime uses them in place
        pointers = (ctypes.c_void_p * len(weights))(*(w.ctypes.data for w in weights))
        error = ErrorText()
        handle = library().numc_program_from_parts(
            path, abi, len(abi), contents.code, len(contents.code), pointers, len(weights), error.reference()
        )
        if not handle:
            text = error.take()
            if path is not None:
                raise NumcError(text)
            # Code in memory comes directly from the compiler, so an error in it is a bug.
            raise CompilerBug(f"{text}; {FAULT}") if text.startswith("object code:") else NumcError(f"program: {text}")
        self._attach(handle)

    def _attach(self, handle: int) -> None:
        self._handle = ctypes.c_void_p(handle)
        self._inputs = self._contents.abi.inputs
        # Computed once, because a call of a small program takes only microseconds.
        self._names = dict.fromkeys(spec.name for spec in self._inputs).keys()
        self._caller, self._takes_tensors = caller(self._handle, self._inputs, self.outputs, tensors=False), False
        self._settings = dict[int, tuple[RunOptions, int]]()
        self._viewed = [(n, spec.dtype) for n, spec in enumerate(self.outputs) if spec.dtype.startswith("float8")]
        self._narrow = {n: array_dtype(spec.dtype) for n, spec in enumerate(self.outputs) if spec.dtype in BITS_DTYPES}
        self._updates = dict(self._contents.abi.updates)
        self._widths: tuple[Any, Options | None] = None, None
        self._watchers: list[_Watcher] = []
        self._observer = _forwarder(self._watchers)
        weakref.finalize(self, library().numc_program_free, self._handle).atexit = False

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs, in order."""
        return self._inputs

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle what the program file holds; the copy begins to count its runs anew."""
        return Program, (self._contents,)

    def __call__(
        self, *args: Any, threads: int | None = None, seed: int | None = None, widths: Any = None, **named: Any
    ) -> Array | dict[str, Array]:
        """Run. `threads` None: NUMC_NUM_THREADS, else the CPUs this process may use; the bits never depend on it.

        seed: of stochastic rounding, 0 to 2^64 - 1. Without one, every run draws other random bits: those of seed 0 and
        of the number of earlier runs without a seed.
        widths: of operands in formats that leave them to the run (docs/widths.md); those that are not given are the
        widest. A number, or a pair of exponent and significand bits, is for all; ``{"conv1": {"a": 3, "b": 2}}`` for
        the layers and operands that are named, of `widths`.
        Raises NumcError for inputs that are missing, unknown, or of another dtype or shape, and under NUMC_CHECK=1
        CompilerBug for code that does what it must not do.
        """
        results = self.run(self._values(args, named), threads=threads, seed=seed, widths=widths)
        for result in self._updates:
            if is_tensor(results[result]):
                results[result] = results[result].detach()
        if len(results) == 1:
            return results[0]  # type: ignore[no-any-return]
        return {spec.name: output for spec, output in zip(self.outputs, results, strict=True)}

    def run(
        self,
        values: tuple[Any, ...],
        *,
        tensors: bool = False,
        threads: int | None = None,
        seed: int | None = None,
        widths: Any = None,
        orders: bytes | None = None,
    ) -> list[Any]:
        """Run on the values of all inputs, in order, and return the results in order, as arrays or torch tensors.

        They are tensors if `tensors` says so, and if one of the values is a tensor. One that was written into an input
        is the value that was given. threads, seed, widths: as for a call. orders: of the dimensions of results that are
        tensors, what `caller.orders_of` returns. Raises NumcError and CompilerBug as a call does.
        """
        count = 0
        if threads is not None:
            plain = type(threads) is int and 1 <= threads <= _MOST_THREADS
            count = threads if plain else checked_integer(threads, "threads", 1, _MOST_THREADS)
        chosen = None if widths is None else self._chosen(widths)
        options, address = self._told(count, seed, chosen)
        if CONTEXT.watches:
            with DefaultEnvironment(), contextlib.ExitStack() as stack:
                for watch in CONTEXT.watches:
                    options.profile = stack.enter_context(watch(self)) or options.profile
                outcome = self._found(values, address, tensors, orders)
        else:
            outcome = self._found(values, address, tensors, orders)
        if isinstance(outcome, tuple):
            raise self._failure(*outcome)
        if chosen is not None:
            chosen.take()
        if self._updates or self._viewed or self._narrow:
            self._restore(outcome, tensors or any_tensor(values))
        return outcome

    def _found(
        self, values: tuple[Any, ...], options: int, tensors: bool, orders: bytes | None
    ) -> list[Any] | tuple[int, str]:
        """Return the results of a run, or the code and the text of its failure. options: the address of RunOptions."""
        outcome = self._caller(values, options, tensors, orders)
        if outcome is not None:
            return outcome
        if tensors := tensors or any_tensor(values):
            if not self._takes_tensors:
                self._caller = caller(self._handle, self._inputs, self.outputs, tensors=True)
                self._takes_tensors = True
            outcome = self._caller(values if self._updates else dense_tensors(values), options, tensors, orders)
            if outcome is not None:
                return outcome
        arrays, owned = self._bind(tuple(self._in_order(values, {})))
        outcome = self._caller(tuple(arrays), options, tensors, orders)
        assert outcome is not None, "arrays that are as they have to be"
        if isinstance(outcome, list):
            for result, number in self._updates.items():
                if owned[number] is not arrays[number]:
                    np.copyto(owned[number], arrays[number])
                outcome[result] = values[number]
        return outcome

    def _restore(self, results: list[Any], tensors: bool) -> None:
        """Make tensors of the arrays that a run updated, if the results are tensors, and restore all their dtypes.

        Where DLPack or numpy lack the dtype of a result, it comes as the bits of its values.
        """
        if not tensors:
            for result, narrow in self._narrow.items():
                results[result] = results[result].view(narrow)
            return
        for result, number in self._updates.items():
            if not is_tensor(results[result]):
                results[result] = to_tensor(results[result], self._inputs[number].dtype)
        for result, dtype in self._viewed:
            results[result] = results[result].view(torch_dtype(dtype))

    def by_name(
        self, inputs: Mapping[str, Any], *, threads: int | None = None, seed: int | None = None, widths: Any = None
    ) -> dict[str, Array]:
        """Run on inputs by name and return the outputs by name, even if there is only one. No input is changed."""
        if not isinstance(inputs, Mapping):
            raise NumcError(f"program: got {type(inputs).__name__}, want the inputs by name")
        named_inputs = dict(inputs)
        for name in {self.inputs[number].name for number in self._updates.values()} & named_inputs.keys():
            named_inputs[name] = np.array(as_array(f"input {quoted(name)}", named_inputs[name]))
        outputs = self(named_inputs, threads=threads, seed=seed, widths=widths)
        return outputs if isinstance(outputs, dict) else {self.outputs[0].name: outputs}

    def profile(
        self,
        *args: Any,
        repeat: int = 10,
        threads: int | None = None,
        seed: int | None = None,
        widths: Any = None,
        peak: float | None = None,
        bandwidth: float | None = None,
        **named: Any,
    ) -> Any:
        """Run the program, and return what its parts take of the time: a numc.Profile (docs/profiling.md).

        The program runs once to warm up and then `repeat` times; the table is that of the fastest run. What is run, and
        all bits of the results, are the same as without a profile. Inputs that the program updates are updated by every
        run.
        args, named, threads, seed, widths: as for a call. peak, bandwidth: what the machine can reach in GFLOP/s and in
        GB/s; what is not given is measured once and kept in the cache folder.
        Raises NumcError as a call does, for numbers that are not positive, and for a program that has no table of its
        parts.
        """
        # This floor imports nothing from above, and a program that is not profiled needs none of it.
        record = importlib.import_module("numc.studies.profile.record")
        options = {"threads": threads, "seed": seed, "widths": widths, "peak": peak, "bandwidth": bandwidth}
        return record.profile_program(self, args, named, repeat=repeat, **options)

    def _chosen(self, widths: Any) -> Options:
        """Return what a run is told about widths; the same as the run before, if these are the same numbers."""
        before, options = self._widths
        if options is None or options.choices is not None or before != widths:
            options = Options(self.widths, widths)
            self._widths = copy.deepcopy(widths), options
        return options

    def _told(self, count: int, seed: int | None, chosen: Options | None) -> tuple[RunOptions, int]:
        """Return what a run is told, and its address; the same for every run with so many threads and nothing else."""
        if seed is not None or chosen is not None or CONTEXT.watches:
            drawn = 0 if seed is None else seed_number(seed)
            options = RunOptions(ctypes.sizeof(RunOptions), count, seed is not None, drawn)
            if chosen is not None:
                options.widths, options.choices = chosen.widths, chosen.choices
            return options, ctypes.addressof(options)
        if count not in self._settings:
            options = RunOptions(ctypes.sizeof(RunOptions), count)
            self._settings[count] = options, ctypes.addressof(options)
        return self._settings[count]

    def _failure(self, code: int, text: str) -> NumcError | CompilerBug:
        """Return the text that the manifest has for a code of numc_fail."""
        if code == CHECK_FAILED:
            return CompilerBug(text)
        known = self.manifest.get("failures", {})
        return NumcError(str(known.get(str(code), text)) if code > 0 else text)

    def _values(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the values of all inputs, in order."""
        if len(args) == 1 and type(args[0]) is dict and not named and args[0].keys() == self._names:
            return tuple(args[0][name] for name in self._names)
        if named or len(args) != len(self._inputs):
            return tuple(self._in_order(args, named))
        # Asking an array whether it is a Mapping takes 0.2 microseconds.
        if args and type(args[0]) is not np.ndarray and isinstance(args[0], Mapping):
            return tuple(self._in_order(args, named))
        return args

    @in_default_environment
    def _bind(self, values: tuple[Any, ...]) -> tuple[list[Array], dict[int, Array]]:
        """Return the inputs as arrays, and what updates are written to.

        The latter are arrays of the caller's memory by number of the input, which are not dense where the inputs are
        copies.
        """
        arrays = [_checked(spec, value) for spec, value in zip(self._inputs, values, strict=True)]
        if not self._updates:
            return arrays, {}
        owned = {number: _owned(self.inputs[number], values[number]) for number in self._updates.values()}
        for number, array in owned.items():
            if array.ctypes.data == arrays[number].ctypes.data:
                owned[number] = arrays[number]
        _check_apart(self.inputs, arrays, owned)
        return arrays, owned

    def _in_order(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """Return the values of all inputs. Raises NumcError for missing, unknown or repeated ones."""
        names = list(self._names)
        if args and isinstance(args[0], Mapping):
            named, args = {**args[0], **named}, args[1:]
        if len(args) > len(names):
            raise NumcError(f"program: got {len(args)} inputs, want {len(names)} ({_listed(names)})")
        values = dict(zip(names, args, strict=False))
        for name, value in named.items():
            if name not in names:
                near = did_you_mean(name, names) if isinstance(name, str) else ""
                raise NumcError(f"input {quoted(name)}: no such input{near}: want {_listed(names)}")
            if name in values:
                raise NumcError(f"input {quoted(name)}: given twice, by position and by name")
            values[name] = value
        missing = [name for name in names if name not in values]
        if missing:
            raise NumcError(f"program: missing {_listed(missing)}: want {_listed(names)}")
        return [values[name] for name in names]

    @contextlib.contextmanager
    def observe(self, callback: Callback) -> Iterator[None]:
        """Call `callback` before and after every parallel kernel of the runs that start inside the `with` block.

        An exception in the callback is raised when the block ends. The address is valid only during the call.
        """
        watcher = _Watcher(callback)
        self._watchers.append(watcher)
        library().numc_set_observer(self._handle, self._observer, None)
        try:
            yield
        finally:
            self._watchers.remove(watcher)
            if not self._watchers:
                library().numc_set_observer(self._handle, None, None)
        if watcher.failure is not None:
            raise watcher.failure


class _Watcher:
    """One observe() block: its callback until that raises, then the exception, which must not pass machine code."""

    def __init__(self, callback: Callback) -> None:
        self.callback = callback
        self.failure: BaseException | None = None

    def __call__(self, kernel: int, operands: int, phase: int) -> None:
        if self.failure is None:
            try:
                self.callback(kernel, operands, phase)
            except BaseException as failure:
                self.failure = failure


def _forwarder(watchers: list[_Watcher]) -> Any:
    """Return the C callback of a program. It lives as long as the program, so every run can call it."""

    def forward(_user: int | None, kernel: int, operands: int | None, phase: int) -> None:
        for watcher in tuple(watchers):
            watcher(kernel, operands or 0, phase)

    return Observer(forward)


def seed_number(seed: Any) -> int:
    """Return `value` as a seed. Raises NumcError if it is none."""
    return checked_integer(seed, "seed", 0, 2**64 - 1)


def _checked(spec: Input, value: Any) -> Array:
    """Return `value` as a dense array of exactly the wanted dtype and shape."""
    what = f"input {quoted(spec.name)}"
    array = as_array(what, value, str(spec))
    array, wanted = in_dtype(array, spec.dtype), array_dtype(spec.dtype)
    dtype = array.dtype.newbyteorder("=")
    if isinstance(value, int | float | list | tuple) and dtype != wanted:
        # Python numbers have no dtype: they are converted to the wanted one if no more than precision is lost.
        with contextlib.suppress(TypeError):
            plain_array = array.astype(np.float32, casting="same_kind") if wanted.kind == "V" else array
            converted = plain_array.astype(wanted, casting="same_kind")
            array = converted if converted.dtype.kind == "f" or np.array_equal(converted, array) else array
            dtype = array.dtype
    fits = array.ndim == len(spec.shape) and all(
        want is None or got == want for got, want in zip(array.shape, spec.shape, strict=True)
    )
    if dtype != wanted or not fits:
        got = TensorSpec(spec.name, array.dtype.name, array.shape)
        how = f".to(torch.{spec.dtype})" if is_tensor(value) else f".astype('{spec.dtype}')"
        hint = f": convert it with {how}" if fits else ""
        raise NumcError(f"{what}: got {got}, want {spec}{hint}")
    return dense(what, array).view(bits_dtype(spec.dtype))


def _owned(spec: Input, value: Any) -> Array:
    """Return an array of the memory of an input that a run updates. Raises NumcError if there is none to write to."""
    what = f"input {quoted(spec.name)}: the program updates it"
    if not isinstance(value, np.ndarray) and not is_tensor(value):
        raise NumcError(f"{what}, and got {quoted(type(value).__name__)}: give an array or a tensor")
    array = as_array(f"input {quoted(spec.name)}", value)
    if not array.flags.writeable:
        raise NumcError(f"{what}, and got an array that is read-only: give a copy")
    if any(stride == 0 and size > 1 for stride, size in zip(array.strides, array.shape, strict=True)):
        raise NumcError(f"{what}, and got one that repeats its elements: give a copy")
    return array.view(bits_dtype(spec.dtype).newbyteorder(array.dtype.byteorder))


def _check_apart(specs: Sequence[Input], arrays: Sequence[Array], updated: Mapping[int, Array]) -> None:
    """Raise NumcError if an input that a run updates shares memory with another input."""
    spans = []
    for number, array in enumerate(arrays):
        memory = updated.get(number, array)
        reach = [stride * (size - 1) for stride, size in zip(memory.strides, memory.shape, strict=True)]
        start = memory.ctypes.data + sum(n for n in reach if n < 0)
        end = memory.ctypes.data + sum(n for n in reach if n > 0) + memory.itemsize
        if memory.size:
            spans.append((start, end, number))
    furthest, furthest_updated = (0, -1), (0, -1)  # the end of a span, and whose it is
    for start, end, number in sorted(spans):
        before, other = furthest if number in updated else furthest_updated
        if start < before:
            mine, theirs = sorted((number, other), key=lambda n: (n not in updated, n))
            raise NumcError(f"input {quoted(specs[mine].name)}: the program updates it, and it shares memory with "
                            f"{quoted(specs[theirs].name)}: give a copy")  # fmt: skip
        furthest = max(furthest, (end, number))
        if number in updated:
            furthest_updated = max(furthest_updated, (end, number))


@in_default_environment
def load(
    path: str | os.PathLike[str],
    *,
    verify_with: str | os.PathLike[str] | None = None,
    copy_weights: bool | None = None,
) -> Program | GpuProgram:
    """Load a program file: for target ``cuda`` a GpuProgram. Running one executes the code in it: load what you trust.

    verify_with: a PEM file with an ed25519 public key. A file that was not signed with the private key of this pair is
    refused before any of its code becomes executable, and the others are copied into memory as a whole.
    copy_weights: whether weights are copied into memory, and not mapped; None leaves that to the environment variable
    NUMC_COPY_WEIGHTS. Raises NumcError when the file cannot be read, is damaged, needs CPU features that are not here,
    and when its signature does not fit.
    """
    path = checked_path(path)
    contents, abi = read_program_and_abi(path, verify_with, copy_weights)
    if contents.abi.target == CUDA:
        from numc.runtime.gpu.gpu_program import GpuProgram

        return GpuProgram(contents)
    return Program._of_file(contents, abi, path)


@in_default_environment
def load_here(path: str | os.PathLike[str], *, verify_with: str | os.PathLike[str] | None = None) -> Program:
    """Load a program file that runs on this processor. Raises NumcError as `load` does, and for target ``cuda``."""
    path = checked_path(path)
    return Program._of_file(*read_program_and_abi(path, verify_with, None), path)
