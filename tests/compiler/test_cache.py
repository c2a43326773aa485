"""The cache of compiled programs: what makes a key, what survives damage, crowds and a full folder."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

import numc
from numc.compiler.cache import cache, file_hashes
from numc.compiler.options import Options
from numc.compiler.programs import compile as compiling
from numc.frontends.imported import Argument, Imported
from numc.support.files import copy_whole

MODEL = """
func.func @main(%a: tensor<?x4xf32>, %b: tensor<4x3xf32>, %c: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %r = linalg.matmul ins(%a, %b : tensor<?x4xf32>, tensor<4x3xf32>) outs(%c : tensor<?x3xf32>) -> tensor<?x3xf32>
  return %r : tensor<?x3xf32>
}
"""
ONES = (np.ones((2, 4), np.float32), np.ones((4, 3), np.float32), np.zeros((2, 3), np.float32))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty cache, and the working folder with model.mlir."""
    monkeypatch.setenv("NUMC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("model.mlir").write_text(MODEL)
    return tmp_path / "cache"


def compiled(fma="fp32", **options):
    """The contents and whether they came from the cache."""
    return compiling.contents("model.mlir", Options(fma=fma, **options))


def programs(place):
    return sorted(place.glob("*.numc"))


def test_the_second_compilation_is_the_first_ones_file(place):
    contents, cached = compiled()
    again, found = compiled()
    assert (cached, found) == (False, True)
    assert (again.code, again.manifest, again.ir, again.abi) == (
        contents.code,
        contents.manifest,
        contents.ir,
        contents.abi,
    )
    np.testing.assert_array_equal(numc.compile("model.mlir")(*ONES), np.full((2, 3), 4, np.float32))
    assert len(programs(place)) == 1


@pytest.mark.parametrize(
    "options",
    [
        *({"fma": "mp"}, {"ops": "bf16"}, {"target": "x86-64-v3"}, {"fast": False}, {"pack_weights": True}),
        *({"calibration": ((0, 1, 2),)}, {"statistics": True}, {"respect_dtypes": False}),
    ],
)
def test_every_option_that_changes_the_program_changes_the_key(place, options):
    usual = cache.entry("model.mlir", Options(target="x86-64-v4"), None)
    assert cache.entry("model.mlir", Options(**{"target": "x86-64-v4", **options}), None) != usual


def test_the_models_bytes_its_shapes_and_numc_itself_change_the_key(place, monkeypatch):
    keys = {cache.entry("model.mlir", Options(), None)}
    keys.add(cache.entry("model.mlir", Options(), {"x": (1, 2)}))
    Path("model.mlir").write_text(MODEL + "\n")
    keys.add(cache.entry("model.mlir", Options(), None))
    package = shutil.copytree(Path(numc.__file__).parent, "other", symlinks=False)
    monkeypatch.setattr(numc, "__file__", str(Path(package, "__init__.py").resolve()))
    cache.own_sources.cache_clear()
    same = cache.entry("model.mlir", Options(), None)
    assert same in keys
    with open(Path(package, "passes", "buffers", "outline.py"), "a") as file:
        file.write("# edited\n")
    cache.own_sources.cache_clear()
    keys.add(cache.entry("model.mlir", Options(), None))
    cache.own_sources.cache_clear()
    assert len(keys) == 4


CHANGES = {
    "mlir": MODEL + "\n",
    "inputs": (Argument("x", "float32", (3,)),),
    "outputs": (Argument("y", "float32", (2, -1), ("", "n")),),
    "weights": {1: ("w", np.full(3, -0.0, np.float32))},
    "sources": ("other",),
    "nodes": {"fc": "aten.mm.default"},
    "roles": {"fc": "wgrad"},
    "ranges": {"n": (1, 5)},
    "updates": {0: 1},
    "stored_inputs": {0: "bf16"},
    "stored_outputs": {0: "bf16"},
    "quantised": "gptq",
}


def test_every_part_of_a_traced_model_changes_the_key(place):
    """A new field of Imported needs a place in the key, and here."""
    assert CHANGES.keys() == {field.name for field in fields(Imported)}
    usual = Imported(MODEL, (Argument("x", "float32", (2,)),), weights={1: ("w", np.zeros(3, np.float32))})
    models = [usual, *(replace(usual, **{name: value}) for name, value in CHANGES.items())]
    models.append(replace(usual, inputs=(Argument("x", "int32", (2,)),)))
    models.append(replace(usual, weights={1: ("w", np.zeros((3, 1), np.float32))}))
    models.append(replace(usual, weights={1: ("w", np.zeros(3, np.int32))}))
    models.append(replace(usual, weights={2: usual.weights[1]}))
    assert len({cache.entry(model, Options(), None) for model in models}) == len(models)
    same = Imported(MODEL, (Argument("x", "float32", (2,)),), weights={1: ("w", np.zeros(3, np.float32))})
    assert cache.entry(same, Options(), None) == cache.entry(usual, Options(), None)


def test_every_part_of_a_graph_changes_the_key_of_its_linalg(place):
    torch = pytest.importorskip("torch")
    from numc.compiler.torch_compile.graphs.converted import _described

    def described(target="add.Tensor", shape=(2, 3), dtype=torch.float32, alpha=1, name="sum", swapped=False, twice=0):
        graph = torch.fx.Graph()
        a, b = (graph.placeholder(each) for each in "ab")
        a.meta["val"] = b.meta["val"] = torch.empty(shape, dtype=dtype, device="meta")
        packet, overload = target.split(".")
        operation = getattr(getattr(torch.ops.aten, packet), overload)
        node = graph.call_function(operation, (b, a) if swapped else (a, b), {"alpha": alpha})
        node.meta["val"] = a.meta["val"]
        graph.output((node,) * (1 + twice))
        return _described(graph, {node: name})

    changes = [{"target": "sub.Tensor"}, {"shape": (3, 2)}, {"dtype": torch.bfloat16}, {"name": "other"}]
    changes += [{"alpha": value} for value in (2, 1.0, True, "%a", -0.0, 0.0)] + [{"swapped": True}, {"twice": 1}]
    assert len({described(**each) for each in ({}, *changes)}) == 1 + len(changes)
    assert described() == described()


def test_weights_in_a_file_beside_the_model_count(place):
    onnx = pytest.importorskip("onnx")
    weight = np.arange(256, dtype=np.float32).reshape(16, 16)
    x, y = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 16]) for n in "xy")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [onnx.numpy_helper.from_array(weight, "w")]
    )
    onnx.save(onnx.helper.make_model(graph), "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    one = np.ones((1, 16), np.float32)
    np.testing.assert_array_equal(numc.compile("m.onnx")(one), one @ weight)
    assert compiling.contents("m.onnx", Options())[1]
    (2 * weight).tofile("w.bin")
    assert not compiling.contents("m.onnx", Options())[1]
    np.testing.assert_array_equal(numc.compile("m.onnx")(one), 2 * one @ weight)


@pytest.mark.parametrize("damage", ["program", "cut", "about"])
def test_a_damaged_entry_is_a_miss_and_is_replaced(place, damage):
    compiled()
    (program,) = programs(place)
    if damage == "about":
        program.with_suffix(".json").write_text("[]")
    else:
        data = bytearray(program.read_bytes())
        data[-1] ^= 1
        program.write_bytes(data[: len(data) // 2] if damage == "cut" else data)
    assert not compiled()[1]
    assert compiled()[1]


def change_in_place(file, change):
    """Change a file, and give it back the time at which it was changed, as nobody but the system knows better."""
    before = file.stat()
    while file.stat().st_ctime_ns == before.st_ctime_ns:  # the clock of the file system may be coarse
        with open(file, "r+b") as opened:
            change(opened)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def count_hashes(monkeypatch):
    """Return the names of the files that are hashed from now on."""
    hashed, hash_of = [], file_hashes.hash_of

    def counted(file):
        hashed.append(Path(file.name).name)
        return hash_of(file)

    for module in (cache, file_hashes):
        monkeypatch.setattr(module, "hash_of", counted)
    return hashed


def test_a_program_is_hashed_again_where_its_file_was_touched(place, monkeypatch):
    compiled()
    (program,) = programs(place)
    whole = program.read_bytes()
    hashed = count_hashes(monkeypatch)
    assert compiled()[1]
    assert program.name not in hashed
    change_in_place(program, lambda file: file.write(whole))  # as when a cache is restored from a copy
    assert compiled()[1]
    assert compiled()[1]
    assert hashed.count(program.name) == 1
    change_in_place(program, lambda file: file.seek(-1, os.SEEK_END) and file.write(bytes([whole[-1] ^ 1])))
    assert not compiled()[1]
    assert programs(place) == [program]
    assert program.read_bytes() == whole


@pytest.mark.parametrize("what", ["copy", "load"])
def test_a_hit_is_the_stored_program_to_the_byte(place, what):
    (_, first), (described, again) = (
        compiling.to_file("model.mlir", f"{name}.numc", Options(fma="mp")) for name in ("first", "again")
    )
    assert (first, again) == (False, True)
    contents, cached = compiled("mp")
    assert cached
    assert contents.description == described
    assert Path("first.numc").read_bytes() == Path("again.numc").read_bytes() == programs(place)[0].read_bytes()


@pytest.mark.parametrize("how", ["absent", "refused", "partly"])
def test_a_program_is_copied_where_the_system_cannot(place, monkeypatch, how):
    described, _ = compiling.to_file("model.mlir", "first.numc", Options())
    copy = os.copy_file_range

    def other(source, to, count, offset):
        if how == "refused" or offset:
            raise OSError(errno.EXDEV, "another file system")
        return copy(source, to, min(count, 1000), offset)

    if how == "absent":
        monkeypatch.delattr(os, "copy_file_range")
    else:
        monkeypatch.setattr(os, "copy_file_range", other)
    assert compiling.to_file("model.mlir", "again.numc", Options()) == (described, True)
    assert Path("again.numc").read_bytes() == Path("first.numc").read_bytes()


def test_a_copy_that_fails_leaves_no_file_and_keeps_the_entry(place, monkeypatch):
    compiled()

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(numc.NumcError, match=r"^out\.numc: cannot write: No space left on device$"):
            compiling.to_file("model.mlir", "out.numc", Options())
    assert not Path("out.numc").exists()
    assert compiled()[1]


def test_a_file_that_becomes_shorter_is_not_copied(tmp_path, monkeypatch):
    file, copy = tmp_path / "file", tmp_path / "copy"
    file.write_bytes(b"whole")
    monkeypatch.setattr(os, "copy_file_range", lambda *_: os.truncate(file, 3))
    with (
        open(file, "rb") as opened,
        pytest.raises(numc.NumcError, match=r"/copy: cannot write: the file that is copied became shorter$"),
    ):
        copy_whole(opened, copy)
    assert not copy.exists()


def test_a_large_file_that_has_not_changed_is_hashed_once(place, tmp_path, monkeypatch):
    if not os.major(tmp_path.stat().st_dev):
        pytest.skip("temporary files are not on a disk of this machine")
    monkeypatch.setattr(file_hashes, "_NOTED", 1)
    place.mkdir()
    file, hashed = tmp_path / "model.onnx", count_hashes(monkeypatch)
    file.write_bytes(b"model 1")

    def noted():
        return file_hashes.noted_hash(file, place)

    first = noted()
    assert noted() == first
    assert len(hashed) == 2  # the clock could say the same time for a change that comes now
    monkeypatch.setattr(file_hashes, "_SETTLED", -1)
    assert noted() == noted() == noted() == first
    assert len(hashed) == 3
    change_in_place(file, lambda opened: opened.write(b"model 2"))
    assert (second := noted()) != first
    assert noted() == second
    assert len(hashed) == 4
    other = tmp_path / "other.onnx"
    other.write_bytes(b"model 1")
    os.replace(other, file)
    assert noted() == first
    (note,) = place.glob("*.note")
    for damage in ("", "{}", '{"stamp": 1}'):
        note.write_text(damage)
        assert noted() == first
    monkeypatch.setattr(file_hashes, "_NOTED", 1 << 20)
    count = len(hashed)
    assert noted() == first
    assert len(hashed) == count + 1
    assert cache.clear()[0] == 0
    assert not list(place.iterdir())


def test_a_model_that_is_changed_in_place_is_compiled_again(place, monkeypatch):
    monkeypatch.setattr(file_hashes, "_NOTED", 1)
    monkeypatch.setattr(file_hashes, "_SETTLED", -1)
    compiled()
    assert compiled()[1]
    other = MODEL.replace("linalg.matmul ins(%a, %b :", "linalg.matmul ins(%a, %b:").replace(
        "return %r :", "return %r  :"
    )
    assert len(other) == len(MODEL)
    change_in_place(Path("model.mlir"), lambda file: file.write(other.encode()))
    assert not compiled()[1]
    assert len(programs(place)) == 2


def test_a_large_file_that_changes_while_it_is_hashed_gets_no_note(place, tmp_path, monkeypatch):
    monkeypatch.setattr(file_hashes, "_NOTED", 1)
    monkeypatch.setattr(file_hashes, "_SETTLED", -1)
    file, hash_of = tmp_path / "model.onnx", file_hashes.hash_of
    file.write_bytes(b"model 1")

    def changing(opened):
        found = hash_of(opened)
        change_in_place(file, lambda again: again.write(b"model 2"))
        return found

    monkeypatch.setattr(file_hashes, "hash_of", changing)
    first = file_hashes.noted_hash(file, place)
    assert not place.exists()
    assert file_hashes.noted_hash(file, place) != first


def test_every_piece_of_a_file_is_in_its_hash(tmp_path, monkeypatch):
    monkeypatch.setattr(file_hashes, "_PIECE", 4)

    def hash_of(file):
        with open(file, "rb") as opened:
            return file_hashes.hash_of(opened)

    data, file = bytes(range(11)), tmp_path / "weights"
    variants = [data, data[:-1], data + b"\0", data[4:8] + data[:4] + data[8:]]
    variants += [data[:n] + b"\xff" + data[n + 1 :] for n in range(11)]
    hashes = []
    for variant in variants:
        file.write_bytes(variant)
        hashes.append(hash_of(file))
    assert len(set(hashes)) == len(variants)
    file.write_bytes(data)
    assert hash_of(file) == hashes[0]


def test_the_least_recently_used_goes_first(place, monkeypatch):
    for number, fma in enumerate(("fp32", "highbfp")):
        compiled(fma)
        newest = max(place.glob("*.json"), key=lambda p: p.stat().st_mtime_ns)
        os.utime(newest, (1000 + number, 1000 + number))
    assert compiled("fp32")[1]  # now used after highbfp, which is much larger than mp
    size = sum(p.stat().st_size for p in place.iterdir())
    monkeypatch.setenv("NUMC_CACHE_SIZE", str(size))
    compiled("mp")
    assert sum(p.stat().st_size for p in place.iterdir()) <= size
    assert {row["fma"] for row in cache.info()["programs"]} == {"fp32", "mp"}
    assert [compiled(fma)[1] for fma in ("fp32", "mp")] == [True, True]


def test_texts_are_kept_and_damaged_ones_made_anew(place, monkeypatch):
    made = []

    def text(what):
        return cache.text_of(what, lambda: made.append(what) or f"text of {what}")

    assert [text(what) for what in ("a", "a", "b")] == ["text of a", "text of a", "text of b"]
    assert made == ["a", "b"]
    for file in place.glob("*.text"):
        file.write_bytes(file.read_bytes()[:-1])
    assert text("a") == "text of a"
    assert made == ["a", "b", "a"]
    monkeypatch.setattr(cache, "own_sources", lambda: "other sources")
    text("a")
    assert made == ["a", "b", "a", "a"]
    monkeypatch.setenv("NUMC_CACHE_SIZE", "1")
    text("c")
    assert not list(place.glob("*.text"))


def test_a_program_that_is_removed_while_in_use_goes_on(place):
    compiled()
    program = numc.compile("model.mlir")
    assert cache.clear()[0] == 1
    np.testing.assert_array_equal(program(*ONES), np.full((2, 3), 4, np.float32))


def test_what_killed_writers_left_is_removed_and_foreign_files_stay(place, tmp_path):
    """Two writers are killed when their file is complete except for its name, one of them two hours ago."""
    place.mkdir()
    compiled()
    (program,) = programs(place)
    code = (
        "import os, signal, sys\n"
        "from numc.runtime import read_program, write_program\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_program(sys.argv[1], read_program(sys.argv[1]))\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    left = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code, program], env=env, check=False)
        assert done.returncode == -signal.SIGKILL
        left += [path for path in place.iterdir() if path.name.startswith(".") and path not in left]
    (place / "mine.txt").write_text("x")
    for file in (left[0], place / "mine.txt"):
        os.utime(file, (time.time() - 7200,) * 2)
    compiled("mp")
    assert [path.exists() for path in left] == [False, True]  # the writer of the other one may still live
    cache.clear()
    assert [p.name for p in place.iterdir()] == ["mine.txt"]


def test_a_folder_in_which_others_can_write_is_refused(place, monkeypatch):
    compiled()
    fix = "chmod go-w, name another folder with NUMC_CACHE_DIR, or set NUMC_CACHE_SIZE=0 for no cache"
    for mode in (0o720, 0o702, 0o1777):
        place.chmod(mode)
        with pytest.raises(numc.NumcError) as caught:
            compiled()
        what = f"others may write to it (mode {mode:o}), and what is in it would be executed"
        assert str(caught.value) == f"cache folder {place}: {what}: {fix}"
    place.chmod(0o755)
    assert compiled()[1]
    true, other = Path.stat, os.getuid() + 1

    def owned_by_another(path: Path, **how: bool) -> os.stat_result:
        found = true(path, **how)
        return os.stat_result((*found[:4], other, *found[5:])) if path == place else found

    monkeypatch.setattr(Path, "stat", owned_by_another)
    with pytest.raises(numc.NumcError, match=f"cache folder {place}: it belongs to user {other}, and what is in it "):
        compiled()


def test_off_and_unusable(place, monkeypatch, tmp_path):
    monkeypatch.setenv("NUMC_CACHE_SIZE", "0")
    assert [compiled()[1] for _ in range(2)] == [False, False]
    assert not place.exists()
    monkeypatch.delenv("NUMC_CACHE_SIZE")
    (tmp_path / "file").write_text("")
    for impossible in (tmp_path / "file", Path("/proc/none")):
        monkeypatch.setenv("NUMC_CACHE_DIR", str(impossible))
        assert not compiled()[1]
    numc.compile("model.mlir", cache=False)


def test_the_folder_and_the_size(monkeypatch):
    monkeypatch.delenv("NUMC_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache.folder() == Path("/x/numc")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/h")
    assert cache.folder() == Path("/h/.cache/numc")
    for text, size in (("", 2 << 30), ("500M", 500 << 20), ("2g", 2 << 30), ("7", 7)):
        monkeypatch.setenv("NUMC_CACHE_SIZE", text)
        assert cache.limit() == size
    monkeypatch.setenv("NUMC_CACHE_SIZE", "much")
    with pytest.raises(numc.NumcError, match="NUMC_CACHE_SIZE: got 'much', want a number of bytes such as 500M or 2G"):
        cache.limit()


@pytest.mark.all
def test_processes_that_compile_the_same_at_once(place):
    code = (
        "import sys, numpy as np, numc\n"
        "for n in range(4):\n"
        "    p = numc.compile('model.mlir', fma=['mp', 'fp32'][n % 2])\n"
        "    x = np.ones((2, 4), np.float32)\n"
        "    assert (p(x, np.ones((4, 3), np.float32), np.zeros((2, 3), np.float32)) == 4).all()\n"
    )
    # So small a cache that the processes evict what others read.
    env = {**os.environ, "NUMC_CACHE_SIZE": "20K", "PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen([sys.executable, "-c", code], env=env, stderr=subprocess.PIPE) for _ in range(3)]
    for process in running:
        _, error = process.communicate(timeout=300)
        assert (process.returncode, error) == (0, b"")
    for program in programs(place):
        about = json.loads(program.with_suffix(".json").read_text())
        assert cache.Entry(program).load() is not None, about


def test_a_hit_imports_neither_mlir_nor_onnx(place):
    compiled()
    code = (
        "import sys, numc; numc.compile('model.mlir'); assert not {'torch_mlir', 'onnx'} & set(sys.modules), 'imported'"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)


def test_a_hit_of_the_command_imports_no_numpy_either(place):
    compiled()
    code = (
        "import sys\n"
        "from numc.__main__ import main\n"
        "sys.argv = ['numc', 'compile', 'model.mlir', '--json']\n"
        "assert main() == 0\n"
        "heavy = {'numpy', 'torch_mlir', 'onnx', 'lark', 'importlib.metadata', 'numc.frontends.workers.process'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout)["cached"]
