"""numc.export_shared: programs that the linker of the system links, called through ctypes and from C."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import numc
from numc.compiler.deploy import shared_object
from numc.compiler.deploy.header import c_dtype, c_type, header, identifier
from numc.runtime import Abi, Input, SizeSymbol, TensorSpec, include_folder
from numc.runtime.abi import DTYPES
from numc.runtime.library import ErrorText, Tensor, library
from numc.support.errors import NumcError

pytestmark = pytest.mark.skipif(not (shutil.which("ld") or shutil.which("ld.lld")), reason="no linker")

PRODUCT = """
func.func @main(%x: tensor<?x24xf32>, %w: tensor<24x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x24xf32>
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %y = linalg.matmul ins(%x, %w : tensor<?x24xf32>, tensor<24x8xf32>) outs(%i : tensor<?x8xf32>) -> tensor<?x8xf32>
  %t = math.tanh %y : tensor<?x8xf32>
  return %y, %t : tensor<?x8xf32>, tensor<?x8xf32>
}
"""
W = np.random.default_rng(0).standard_normal((24, 8)).astype(np.float32)
X = np.random.default_rng(1).standard_normal((5, 24)).astype(np.float32)


def compiled(tmp_path, **options):
    (tmp_path / "product.mlir").write_text(PRODUCT)
    return numc.compile(tmp_path / "product.mlir", **options)


def tensor(array):
    dims = (ctypes.c_int64 * 16)(*array.shape)
    return Tensor(array.ctypes.data, DTYPES.index(array.dtype.name), array.ndim, dims, None)


def called(path, *arrays, name="product", threads=2):
    """The outputs of a shared object, or the text of its error."""
    run = getattr(ctypes.CDLL(str(path)), f"{name}_run")
    inputs, outputs, error = (Tensor * len(arrays))(*map(tensor, arrays)), (Tensor * 2)(), ErrorText()
    if run(inputs, outputs, threads, error.reference()) != 0:
        return error.take()
    found = []
    for each in outputs:
        shape = tuple(each.dims[: each.rank])
        flat = ctypes.cast(each.data, ctypes.POINTER(ctypes.c_float * int(np.prod(shape)))).contents
        found.append(np.array(flat, np.float32).reshape(shape))
        library().numc_tensor_release(ctypes.byref(each))
    return found


@pytest.mark.parametrize("fma", ["fp32", "bf16_1_1", "hopper_fp16"])
def test_a_shared_object_gives_the_bits_of_the_program(tmp_path, fma):
    program = compiled(tmp_path, fma=fma)
    made = numc.export_shared(program, tmp_path / "libproduct.so")
    assert made.runtime == tuple(tmp_path / file for file in ("libnumc_runtime.so", "numc.h", "numc.hpp"))
    with ThreadPoolExecutor(4) as pool:  # whoever comes first sets the program up
        every = list(pool.map(lambda _: called(made.library, X, W), range(4)))
    for outputs in every:
        assert isinstance(outputs, list), outputs
        for got, want in zip(outputs, program(X, W).values(), strict=True):
            assert got.tobytes() == want.tobytes()


def test_two_in_one_process_and_errors_of_a_run(tmp_path):
    programs = [compiled(tmp_path, fma=fma) for fma in ("bf16_1_1", "bf16_2_2{3}")]
    paths = [numc.export_shared(p, tmp_path / f"lib{n}.so", name=f"net{n}").library for n, p in enumerate(programs)]
    for n, (path, program) in enumerate(zip(paths, programs, strict=True)):
        assert called(path, X, W, name=f"net{n}")[0].tobytes() == program(X, W)["result0"].tobytes()
    assert called(paths[0], X[:, :3].copy(), W, name="net0") == "input 'arg0': got float32[5,3], want float32[?,24]"


def test_weights_lie_in_pages_of_the_file(tmp_path):
    """A digits network, with weights in the bytes of their format as well."""
    images = np.load("examples/digits/heldout.npz")["images"][:7]
    for packed in (False, True):
        program = numc.compile("examples/digits/mlp.onnx", fma="fmac(e4m5)", pack_weights=packed)
        made = numc.export_shared(program, tmp_path / f"libmlp{packed}.so", name="mlp")
        run = ctypes.CDLL(str(made.library)).mlp_run
        outputs, error = (Tensor * 1)(), ErrorText()
        assert run((Tensor * 1)(tensor(images)), outputs, 1, error.reference()) == 0
        flat = ctypes.cast(outputs[0].data, ctypes.POINTER(ctypes.c_float * 70)).contents
        assert np.array(flat, np.float32).tobytes() == np.asarray(program(images)).tobytes()
        library().numc_tensor_release(ctypes.byref(outputs[0]))
        if shutil.which("readelf"):
            rows = subprocess.run(["readelf", "-lW", made.library], capture_output=True, text=True, check=True).stdout
            assert not re.search(r"LOAD .* RWE ", rows)  # nothing is both written and executed


def test_what_refuses(tmp_path, monkeypatch):
    program = compiled(tmp_path, fma="fp32")
    for path, text in {
        "net.dll": "net.dll: want a name that ends with .so, such as libnet.so",
        "lib.so": "lib.so: want a name that ends with .so, such as liblib.so",
        "none/libnet.so": r"none/libnet.so: cannot write: there is no folder .*/none: create it first",
    }.items():
        with pytest.raises(NumcError, match=text):
            numc.export_shared(program, tmp_path / path)
    with pytest.raises(NumcError, match="^name: got '2 nets', want an identifier of C, such as x2_nets$"):
        numc.export_shared(program, tmp_path / "libnet.so", name="2 nets")
    with pytest.raises(NumcError, match="^name: got 'numc', whose header is the runtime's own: want another one$"):
        numc.export_shared(program, tmp_path / "libnumc.so")
    with pytest.raises(NumcError, match="^runtime: got int, want True, False or the path of a libnumc_runtime.so$"):
        numc.export_shared(program, tmp_path / "libnet.so", runtime=1)
    monkeypatch.setenv("NUMC_LINKER", "no-such-linker")
    with pytest.raises(NumcError, match="^NUMC_LINKER=no-such-linker: no such command: want the name of GNU ld or of"):
        numc.export_shared(program, tmp_path / "libnet.so")
    monkeypatch.setenv("NUMC_LINKER", "false")
    with pytest.raises(NumcError, match="false: cannot link for elf_x86_64: exit status 1: want GNU ld or lld with"):
        numc.export_shared(program, tmp_path / "libnet.so")
    monkeypatch.delenv("NUMC_LINKER")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NumcError, match=r"^no linker \(ld.lld, .*ld\): install binutils or lld, or name one by the"):
        numc.export_shared(program, tmp_path / "libnet.so")
    assert not list(tmp_path.glob("*.so"))  # all or nothing
    text = "^code of machine 243: shared objects are made for x86-64 and aarch64 only: want another target$"
    with pytest.raises(NumcError, match=text):
        shared_object._machine(_elf(243))


def _elf(machine):
    """The begin of an ELF file."""
    return b"\x7fELF".ljust(18, b"\0") + machine.to_bytes(2, "little")


def test_a_runtime_that_does_not_fit(tmp_path):
    """Nothing is written without the runtime of the program's own machine."""
    program, file = compiled(tmp_path, fma="fp32", target="portable"), tmp_path / "libnumc_runtime.so"
    wanted = "want the libnumc_runtime.so of numc for x86-64"
    with pytest.raises(NumcError) as error:
        numc.export_shared(program, tmp_path / "libnet.so", runtime=file)
    assert str(error.value) == f"{file}: cannot read: No such file or directory: {wanted}"
    for content, what in (
        (_elf(183), "aarch64"),
        (_elf(243), "machine 243"),
        (b"text", "no machine"),
        (b"", "no machine"),
    ):
        file.write_bytes(content)
        with pytest.raises(NumcError) as error:
            numc.export_shared(program, tmp_path / "libnet.so", runtime=file)
        assert str(error.value) == (
            f"{file}: code of {what}, and the program is for x86-64: {wanted} (--runtime, runtime=), or none "
            "(--no-runtime, runtime=False)"
        )
    assert not (tmp_path / "libnet.so").exists()


def test_a_runtime_of_another_version_is_refused(tmp_path, monkeypatch):
    program = compiled(tmp_path, fma="fp32")

    class Other:
        def numc_version(self):
            return b"9.9"

    monkeypatch.setattr(shared_object, "library", Other)
    made = numc.export_shared(program, tmp_path / "libother.so", name="product")
    text = called(made.library, X, W)
    assert text == (
        f"libnumc_runtime.so is of numc {numc.__version__}, and this shared object was made by numc 9.9: want both "
        "from one export"
    )


ODD = Abi(
    entry="f",
    arguments=(
        Input("x.1", "float32", (None, 3, None, None)),
        Input("class", "bfloat16", ()),
        Input("größe */", "bool", (2,)),
        Input("class_", "int4", (None,)),
    ),
    results=(TensorSpec("run", "float64", (None,)), TensorSpec("run", "uint16", ())),
    symbols=(SizeSymbol("N", 1, 9, ((0, 0), (0, 2))), SizeSymbol("elements", 0, 9, ((0, 3),))),
)


@pytest.mark.parametrize(("command", "suffix"), [("cc -std=c99", "c"), ("c++ -std=c++17", "cpp")])
def test_headers_of_any_names_compile(tmp_path, command, suffix):
    if shutil.which(command.split()[0]) is None:
        pytest.skip("no compiler")
    (tmp_path / "odd.h").write_text(header("odd", "libodd.so", ODD, "fp32"))
    source = tmp_path / f"use.{suffix}"
    source.write_text('#include <odd.h>\nnumc_tensor f(const float *x) { return odd_x_1(x, 2, 4); }\n'
                      'enum { A = ODD_OUTPUT_RUN_2, B = ODD_INPUTS };\n')  # fmt: skip
    folders = ["-I", str(tmp_path), "-I", str(include_folder())]
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-c", "-o", str(tmp_path / "use.o")]
    subprocess.run([*command.split(), *strict, *folders, str(source)], check=True)
    for file in ("numc.h", "numc/host.h", "numc/generated.h"):
        source.write_text(f"#include <{file}>\n")
        subprocess.run([*command.split(), *strict, *folders, str(source)], check=True)


def test_dtypes_are_those_of_the_header():
    text = (include_folder() / "numc.h").read_text()
    numbers = {name: int(number) for name, number in re.findall(r"(NUMC_\w+) = (\d+)", text)}
    for number, dtype in enumerate(DTYPES):
        assert numbers[c_dtype(dtype)] == number
    assert (c_type("float16"), c_type("bool"), c_type("int2"), c_type("uint64")) == (
        "uint16_t", "uint8_t", "uint8_t", "uint64_t")  # fmt: skip


def test_the_header_of_users_stays_small():
    """What bindings and generated code need has headers of its own."""
    text = (include_folder() / "numc.h").read_text()
    assert text.count("NUMC_API ") - 1 <= 32


@pytest.mark.parametrize(("text", "want"), [("a b", "a_b"), ("9", "x9"), ("for", "for_"), ("", "x"), ("é", "x")])
def test_identifiers(text, want):
    assert identifier(text) == want
    assert identifier(text, [want]) == f"{want}_2"


def test_the_example_runs_alone(tmp_path):
    """A C program in a folder with two libraries, as in examples/deployment: no Python, no environment."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    program = numc.compile("examples/digits/mlp.onnx", fma="bf16_1_1", target="x86-64-v3")
    out = tmp_path / "app"
    out.mkdir()
    numc.export_shared(program, out / "libmlp.so")
    flags = [f"-I{out}", f"-L{out}", "-lmlp", "-lnumc_runtime", "-Wl,-rpath,$ORIGIN"]
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *strict, "examples/c/exported.c", *flags, "-o", out / "exported"], check=True)
    for file in ("numc.h", "numc.hpp", "mlp.h"):
        (out / file).unlink()
    done = subprocess.run([out / "exported"], capture_output=True, text=True, check=True, env={}, cwd="/")
    want = np.asarray(program(np.ones((1, 64), np.float32)))[0]
    assert [float.fromhex(line) for line in done.stdout.split()] == [float(v) for v in want]
