"""Files of tokens, windows of them, labels that are not counted, and the errors of all these."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import numc
from numc.cli.inputs import read_file
from numc.runtime.abi import Input, TensorSpec
from numc.studies import archives
from numc.studies.data import check_data
from numc.studies.language.tokens import read_tokens
from numc.studies.metrics import NOT_COUNTED, Sums


@pytest.mark.parametrize(("count", "length", "stride"), [(10, 4, 2), (11, 4, 3), (9, 4, 1), (7, 7, None), (12, 4, 4)])
def test_each_token_is_predicted_once(count: int, length: int, stride: int | None) -> None:
    tokens = np.arange(100, 100 + count)
    windows, labels = numc.token_windows(tokens, length, stride)
    assert windows.shape == labels.shape
    assert labels.dtype == windows.dtype == np.int64
    assert list(windows[0]) == list(tokens[:length])
    assert list(windows[-1]) == list(tokens[-length:])
    counted = labels != NOT_COUNTED
    assert (labels[counted] == windows[counted] + 1).all()
    firsts = windows[:, 0] if stride == length else tokens[:1]
    assert sorted(labels[counted]) == sorted(set(tokens) - set(firsts))


def test_files(tmp_path: Path) -> None:
    tokens = np.array([1, 2, 40000], np.uint16)
    np.save(tmp_path / "t.npy", tokens)
    np.savez(tmp_path / "t.npz", tokens=tokens)
    tokens.tofile(tmp_path / "t.bin")
    tokens.astype("<u4").tofile(tmp_path / "wide.bin")
    for name in ("t.npy", "t.npz", "t.bin", "wide.bin:uint32"):
        assert list(read_tokens(f"{tmp_path}/{name}")) == [1, 2, 40000]


def _message(call: Callable[[], object]) -> str:
    with pytest.raises(numc.NumcError) as error:
        call()
    return str(error.value)


def test_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("odd.bin").write_bytes(b"abc")
    Path("no.npz").write_bytes(b"PK\x03\x04 damaged")
    np.savez("two.npz", a=[1], b=[2])
    np.save("floats.npy", [1.0, 2.0])
    np.save("table.npy", [[1, 2]])
    np.save("minus.npy", [3, -1])
    want = "want tokens as .npy, .npz or .bin"
    assert _message(lambda: read_tokens("none.bin")) == f"none.bin: cannot read: No such file or directory: {want}"
    assert _message(lambda: read_tokens("no.npz")) == f"no.npz: not a numpy file of plain numbers: {want}"
    whole = "odd.bin: has 3 bytes, which are no whole numbers of type uint16 (2 bytes each)"
    assert _message(lambda: read_tokens("odd.bin")) == whole
    assert _message(lambda: read_tokens("odd.bin:int8")) == "odd.bin: tokens of type 'int8': want uint16 or uint32"
    assert _message(lambda: read_tokens("two.npz")) == "two.npz: has 2 arrays: want one, of tokens"
    one = "want integers in one dimension"
    assert _message(lambda: read_tokens("floats.npy")) == f"floats.npy: got float64 of shape [2]: {one}"
    assert _message(lambda: read_tokens("table.npy")) == f"table.npy: got int64 of shape [1, 2]: {one}"
    assert _message(lambda: read_tokens("minus.npy")) == "minus.npy: token -1: want 0 to 2^31 - 1"
    few = "tokens: there are 3, a window has 4: give more, or a smaller --length"
    assert _message(lambda: numc.token_windows([1, 2, 3], 4)) == few
    assert _message(lambda: numc.token_windows(range(9), 4, 5)) == "stride: got 5, want a whole number from 1 to 4"
    labels = np.full((2,), NOT_COUNTED)
    given = (
        np.zeros((2, 3), np.float32),
        labels,
        [Input("x", "float32", (None, 3))],
        TensorSpec("y", "float32", (None, 5)),
    )
    assert _message(lambda: check_data(*given, {}, 8)) == (
        "labels: all are -100, which is not counted: want at least one class number"
    )


def test_labels_that_are_not_counted() -> None:
    x = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]], np.float32))
    sums = Sums(("top1", "perplexity"))
    sums.add(x, x, np.array([0, NOT_COUNTED, 0]))
    assert sums.values()["top1"] == 0.5
    assert sums.values()["perplexity"] == pytest.approx(np.exp(-(np.log(0.5) + np.log(0.3)) / 2))


def test_archives_that_expand_far_beyond_their_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_ANY", 2 << 20)
    path = tmp_path / "x.npz"
    np.savez_compressed(path, x=np.zeros(3 << 20, np.uint8))
    for read in (read_file, read_tokens):
        with pytest.raises(numc.NumcError) as caught:
            read(str(path))
        size = path.stat().st_size / 1e6
        assert str(caught.value) == (
            f"{path}: has {size:.3g} MB and says that it expands to 3.15 MB: at most 100 times its size, or 2 MiB, is "
            "read: save it with numpy.savez, which does not compress"
        )
    np.savez_compressed(path, x=np.zeros(1 << 20, np.uint8))
    assert read_tokens(str(path)).shape == (1 << 20,)
