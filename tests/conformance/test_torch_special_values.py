"""Every operator of torch on NaN, infinities, zeros of both signs, subnormals and the ends of each dtype.

The operators are those of tests/data/torch_cases.txt, in all dtypes that they take, many in a program. A result counts
as right if it is eager torch's, or eager torch's of doubles, which does not overflow in the middle. What is not right
is listed in tests/data/torch_special_values.json by its reason, with the letters of its dtypes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402, N812

import numc  # noqa: E402
from tests.frontends.test_torch_cases import CASES, DTYPES, INPUT, made  # noqa: E402
from tests.shared.special_values import float_values, integer_values, same  # noqa: E402
from tests.shared.torch_modules import Calls  # noqa: E402

_LIST = Path(__file__).parents[1] / "data" / "torch_special_values.json"
KNOWN: dict[str, str] = {
    f"{name} {letter}": reason
    for reason, names in json.loads(_LIST.read_text(encoding="utf-8")).items()
    for name, letters in names.items()
    for letter in letters
}
"""Cases that are not right, each with the reason."""
KINDS = {"f": "fdhB", "I": "Iisyu"}
"""The dtypes in which the cases of a dtype are tried."""
COUNTS = {"f": 685, "d": 690, "h": 678, "B": 674, "I": 151, "i": 155, "s": 140, "y": 138, "u": 148, "b": 25}
"""How many cases of each dtype torch and numc take."""
SINGLE, MIXED = 100, 50
"""How often one element is special among ordinary ones, and how often all are."""
GROUP = 24
"""Cases of a program."""
_EXACT = frozenset(
    re.findall(
        r"\w+",
        "add sub mul div maximum minimum eq ne lt le gt ge abs neg sign sgn ceil floor trunc round fix relu "
        "sqrt square positive isnan isinf isfinite isposinf isneginf logical_not logical_and logical_or "
        "logical_xor bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift "
        "signbit copysign fmax fmin heaviside nan_to_num frac clamp clamp_min where masked_fill max min amax "
        "amin aminmax argmax argmin all any sort argsort topk kthvalue median nanmedian cummax cummin gather "
        "take index_select scatter view reshape flatten permute transpose t expand repeat tile flip roll cat "
        "stack split select pad clone relu6 hardtanh threshold",
    )
)
_SUMS = (
    r"mm|mv|dot|inner|addr|matmul|matrix|linear|einsum|tensordot|kron|multi_dot|cross|det|inv|conv|fold|@|avg_pool|lp_pool|"
    r"sum|mean|prod|var|std|norm|softm|dist|similarity|trace|loss|attention|lstm|gru|rnn|interpolate|grid|backward|"
    r"trapez|accumulate|LRN|add\(0|'(sum|prod|mean)'|embedding_bag"
)
"""The functions that are to be right to the last bit; others are computed in another order, or rounded less often."""


@dataclass(frozen=True)
class Case:
    """A line of the table in a dtype."""

    label: str
    inputs: tuple[str, ...]
    expression: str

    @property
    def function(self) -> Callable[..., Any]:
        names = ",".join("abcdefg"[: len(self.inputs)])
        return eval(f"lambda {names}: {self.expression}", {"torch": torch, "F": F})  # type: ignore[no-any-return]

    @property
    def is_sum(self) -> bool:
        """Whether the order of terms and the number of roundings decide about sums of infinities and ends."""
        return re.search(_SUMS, self.expression) is not None

    @property
    def is_exact(self) -> bool:
        return set(re.findall(r"\.([a-z_]\w*)\(", self.expression)) <= _EXACT and not re.search(
            r"\*\*|%|//", self.expression
        )


def cases() -> Iterator[Case]:
    """The cases of the table without those that are refused, each dtype of an expression once."""
    seen = set()
    for name, (_, inputs, expression, *refused) in CASES.items():
        kind = next((letter for letter in "fI" if re.search(rf"\b{letter}[+\[]", inputs)), "")
        for letter in KINDS.get(kind, inputs[:1]):
            changed = re.sub(rf"\b{kind}(?=[+\[])", letter, inputs) if kind else inputs
            if not refused and (changed, expression) not in seen:
                seen.add((changed, expression))
                yield Case(f"{name} {letter}", tuple(changed.split()), expression)


def special(text: str) -> Any:
    """The special values of an input; of indices and other limited integers, none."""
    kind, _, limit, _ = INPUT.fullmatch(text).groups()  # type: ignore[union-attr]
    if kind == "b" or limit:
        return None
    if DTYPES[kind].is_floating_point:
        numpy_dtype = ml_dtypes.bfloat16 if kind == "B" else DTYPES[kind]
        name = str(numpy_dtype).rpartition(".")[2] if kind != "B" else numpy_dtype
        return torch.from_numpy(float_values(name).astype(np.float64)).to(DTYPES[kind])
    return torch.from_numpy(integer_values(np.dtype(str(DTYPES[kind]).rpartition(".")[2])))


def ordinary(text: str) -> Any:
    """An input as in the table, but of odd eighths, whose sums are exact in any order, and which are not 0."""
    value = made(text)
    return (value * 4).round() / 4 + 0.125 if value.is_floating_point() else value


def filled(case: Case) -> list[Any]:
    """The inputs of all runs: one special value at each place in turn, NaN first, and then all elements special."""
    torch.manual_seed(0)
    examples = [ordinary(text) for text in case.inputs]
    given = [example.expand(SINGLE + MIXED, *example.shape).clone() for example in examples]
    values = [special(text) for text in case.inputs]
    turns = [
        (n, place, value)
        for n, found in enumerate(values)
        if found is not None
        for place in range(given[n][0].numel())
        for value in range(len(found))
    ]
    turns = [turns[n] for n in torch.randperm(len(turns)).tolist()]
    turns.sort(key=lambda turn: not values[turn[0]][turn[2]].isnan())
    for run, (n, place, value) in enumerate(turns[:SINGLE]):
        given[n][run].view(-1)[place] = values[n][value]
    for found, tensor in zip(values, given, strict=True):
        if found is not None and not case.is_sum:
            tensor[SINGLE:] = found[torch.randint(len(found), tensor[SINGLE:].shape)]
    return given


def tensors(value: Any) -> list[Any]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def eager(case: Case, given: list[Any], wide: bool = False) -> list[Any]:
    """What torch says for each run, of doubles if it is to be wide."""
    function = case.function
    runs = []
    for run in range(len(given[0])):
        inputs = [each[run].clone() for each in given]
        runs.append(
            tensors(function(*(each.double() if wide and each.is_floating_point() else each for each in inputs)))
        )
    return [torch.stack(each) for each in zip(*runs, strict=True)]


def numbers(tensor: Any) -> np.ndarray[Any, Any]:
    if tensor.dtype == torch.bfloat16:
        return np.asarray(tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16))
    return np.asarray(tensor.numpy())


def is_taken(case: Case) -> bool:
    """Whether torch has the case in its dtype."""
    try:
        case.function(*(made(text) for text in case.inputs))
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
        return False
    return True


def compiled(group: list[Case]) -> Iterator[tuple[list[Case], Any]]:
    """Programs of the cases, without those that are refused."""

    def forward(*given: Any) -> Any:
        left, results = list(given), []
        for case in group:
            results.append(tensors(case.function(*left[: len(case.inputs)])))
            left = left[len(case.inputs) :]
        return results

    try:
        yield group, numc.compile(Calls(forward), tuple(made(text) for case in group for text in case.inputs))
    except numc.NumcError:
        if len(group) > 1:
            middle = len(group) // 2
            yield from compiled(group[:middle])
            yield from compiled(group[middle:])


def difference(case: Case, given: list[Any], found: list[Any]) -> tuple[str, int]:
    """The first element that is neither torch's of the dtype nor of doubles, and the number of elements compared."""
    try:
        wanted, count = eager(case, given), 0
    except RuntimeError:  # torch looks at the values of some losses
        return "", 0
    try:
        wide = eager(case, given, wide=True)
    except (RuntimeError, TypeError):
        wide = wanted
    for got, want, other in zip(found, wanted, wide, strict=True):
        if (got.shape, got.dtype) != (want.shape, want.dtype):
            return f"{got.dtype} {list(got.shape)}, want {want.dtype} {list(want.shape)}", count
        x, y = numbers(got), numbers(want)
        dtype = next((numbers(each).dtype for each in given if each.is_floating_point()), y.dtype)
        right = same(x, y, dtype, exactly=case.is_exact)
        if case.is_sum and x.dtype.kind not in "biu":  # terms of ordinary size cancel
            with np.errstate(all="ignore"):
                right |= np.abs(x.astype(np.float64) - y.astype(np.float64)) <= 64 * float(ml_dtypes.finfo(dtype).eps)
        if other.shape == want.shape:
            z = numbers(other.to(want.dtype))
            right |= same(x, z, dtype, exactly=case.is_exact)
            if not case.is_exact:  # the order of sums decides
                right[SINGLE:] |= ~same(y, z, dtype)[SINGLE:]
        count += right.size
        if not right.all():
            place = tuple(map(int, np.unravel_index(int(np.argmin(right)), right.shape)))
            inputs = " ".join(str(each[place[0]].tolist()) for each in given)
            return f"{int((~right).sum())} of {right.size}, first {place}: {x[place]!r}, want {y[place]!r} of " \
                   f"{inputs[:300]}", count  # fmt: skip
    return "", count


def results_of(group: list[Case], program: Any, given: list[list[Any]]) -> list[list[Any]]:
    """What the program gives for each case in all runs."""
    runs = []
    for run in range(SINGLE + MIXED):
        result = program(*(each[run].clone() for inputs in given for each in inputs))
        runs.append(list(result.values()) if isinstance(result, dict) else [result])
    left = iter(torch.stack(each) for each in zip(*runs, strict=True))
    numbers_of_results = [len(tensors(case.function(*(made(text) for text in case.inputs)))) for case in group]
    return [[next(left) for _ in range(number)] for number in numbers_of_results]


def differences(chosen: list[Case], size: int = GROUP) -> tuple[dict[str, str], dict[str, int]]:
    """What is not right by label, and the number of elements compared of each case that numc takes."""
    wrong, counts = dict[str, str](), dict[str, int]()
    taken = [case for case in chosen if is_taken(case)]
    for start in range(0, len(taken), size):
        for group, program in compiled(taken[start : start + size]):
            given = [filled(case) for case in group]
            try:
                results = results_of(group, program, given)
            except numc.NumcError as error:
                if len(group) == 1:
                    wrong[group[0].label], counts[group[0].label] = str(error), 0
                    continue
                found = differences(group, 1)
                wrong, counts = wrong | found[0], counts | found[1]
                continue
            for case, inputs, result in zip(group, given, results, strict=True):
                text, counts[case.label] = difference(case, inputs, result)
                if text:
                    wrong[case.label] = text
    return wrong, counts


_SAMPLE = re.compile(
    r"(un.trunc|act.leaky_relu|div.floor|pow.half|isclose) [fh]|(div.trunc|bin.maximum.f|max.dim|un.sign|clamp) f|"
    r"(div.floori|bin.floor_divide.I|bin.add.I) [uy]"
)


@pytest.mark.all
def test_some_operators() -> None:
    chosen = [case for case in cases() if _SAMPLE.fullmatch(case.label)]
    wrong, counts = differences(chosen)
    assert wrong == {}
    assert len(counts) == len(chosen) == 21
    assert sum(counts.values()) > 30_000


@pytest.mark.slow
@pytest.mark.parametrize(("letter", "count"), COUNTS.items())
def test_all_operators(letter: str, count: int) -> None:
    wrong, counts = differences([case for case in cases() if case.label.endswith(f" {letter}")])
    assert {label: text for label, text in wrong.items() if label not in KNOWN} == {}
    known = {label for label in KNOWN if label.endswith(f" {letter}")}
    assert known <= wrong.keys(), "these are right now: remove them from the list"
    assert len(counts) == count
