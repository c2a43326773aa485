"""The programs that the runtime's tests run: MLIR text, description and weights of each."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
import zlib
from collections.abc import Mapping

import numpy as np

import numc
from numc.runtime import Abi, Contents, Input, TensorSpec, Weight, pack_ir
from numc.runtime.storage import Encoding, Storage
from runtime_objects import compile_object

ADD = """
func.func @main(%a: memref<?x4xf32>, %b: memref<4xf32>) -> memref<?x4xf32> {
  %c0 = arith.constant 0 : index
  %d = memref.dim %a, %c0 : memref<?x4xf32>
  %r = memref.alloc(%d) : memref<?x4xf32>
  linalg.generic {indexing_maps=[affine_map<(i,j)->(i,j)>,affine_map<(i,j)->(j)>,affine_map<(i,j)->(i,j)>],
                  iterator_types=["parallel","parallel"]}
    ins(%a,%b: memref<?x4xf32>,memref<4xf32>) outs(%r: memref<?x4xf32>) {
   ^bb0(%x: f32, %y: f32, %z: f32):
    %s = arith.addf %x, %y : f32
    linalg.yield %s : f32 }
  return %r : memref<?x4xf32>
}
"""

# y[i] = 2 x[i], in parallel; the context holds the two addresses and an allocation made in every task.
PARALLEL = """
llvm.func @numc_parallel(!llvm.ptr, !llvm.ptr, i64, i64)
llvm.func @numc_fail(i32)
llvm.func @task(%ctx: !llvm.ptr, %begin: i64, %end: i64) {
  %one = llvm.mlir.constant(1 : i64) : i64
  %limit = llvm.mlir.constant(1.0e6 : f32) : f32
  %x = llvm.load %ctx : !llvm.ptr -> !llvm.ptr
  %py = llvm.getelementptr %ctx[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  %y = llvm.load %py : !llvm.ptr -> !llvm.ptr
  llvm.br ^loop(%begin : i64)
^loop(%i: i64):
  %more = llvm.icmp "slt" %i, %end : i64
  llvm.cond_br %more, ^body, ^done
^body:
  %from = llvm.getelementptr %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %v = llvm.load %from : !llvm.ptr -> f32
  %big = llvm.fcmp "ogt" %v, %limit : f32
  llvm.cond_br %big, ^fail, ^store
^fail:
  %code = llvm.mlir.constant(7 : i32) : i32
  llvm.call @numc_fail(%code) : (i32) -> ()
  llvm.unreachable
^store:
  %w = llvm.fadd %v, %v : f32
  %to = llvm.getelementptr %y[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  llvm.store %w, %to : f32, !llvm.ptr
  %next = llvm.add %i, %one : i64
  llvm.br ^loop(%next : i64)
^done:
  llvm.return
}
llvm.func @double(%x: !llvm.ptr, %y: !llvm.ptr, %n: i64, %id: i64) {
  %two = llvm.mlir.constant(2 : i64) : i64
  %ctx = llvm.alloca %two x !llvm.ptr : (i64) -> !llvm.ptr
  llvm.store %x, %ctx : !llvm.ptr, !llvm.ptr
  %py = llvm.getelementptr %ctx[1] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr
  llvm.store %y, %py : !llvm.ptr, !llvm.ptr
  %task = llvm.mlir.addressof @task : !llvm.ptr
  llvm.call @numc_parallel(%task, %ctx, %n, %id) : (!llvm.ptr, !llvm.ptr, i64, i64) -> ()
  llvm.return
}
func.func private @twice(%x: memref<?xf32>, %y: memref<?xf32>, %id: i64) {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %n64 = arith.index_cast %n : index to i64
  %ix = memref.extract_aligned_pointer_as_index %x : memref<?xf32> -> index
  %iy = memref.extract_aligned_pointer_as_index %y : memref<?xf32> -> index
  %jx = arith.index_cast %ix : index to i64
  %jy = arith.index_cast %iy : index to i64
  %px = llvm.inttoptr %jx : i64 to !llvm.ptr
  %py = llvm.inttoptr %jy : i64 to !llvm.ptr
  llvm.call @double(%px, %py, %n64, %id) : (!llvm.ptr, !llvm.ptr, i64, i64) -> ()
  return
}
func.func @main(%x: memref<?xf32>) -> memref<?xf32> {
  %c0 = arith.constant 0 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  %t = memref.alloc(%n) : memref<?xf32>
  %y = memref.alloc(%n) : memref<?xf32>
  %five = arith.constant 5 : i64
  %hidden = arith.constant -1 : i64
  func.call @twice(%x, %t, %five) : (memref<?xf32>, memref<?xf32>, i64) -> ()
  func.call @twice(%t, %y, %hidden) : (memref<?xf32>, memref<?xf32>, i64) -> ()
  memref.dealloc %t : memref<?xf32>
  return %y : memref<?xf32>
}
"""

# Results that are hard to hand over: an argument, a constant, the same buffer twice, a strided view, a scalar.
ODD_RESULTS = """
memref.global "private" constant @table : memref<3xi64> = dense<[7, 8, 9]>
func.func @main(%a: memref<2x3xf32>, %flag: memref<i1>) -> (memref<2x3xf32>, memref<3xi64>, memref<4xf64>,
    memref<4xf64>, memref<3x2xf32, strided<[1, 3]>>, memref<i1>) {
  %c = memref.get_global @table : memref<3xi64>
  %v = arith.constant 1.5 : f64
  %b = memref.alloc() : memref<4xf64>
  linalg.fill ins(%v : f64) outs(%b : memref<4xf64>)
  %t = memref.transpose %a (i, j) -> (j, i) : memref<2x3xf32> to memref<3x2xf32, strided<[1, 3]>>
  %s = memref.alloc() : memref<i1>
  memref.copy %flag, %s : memref<i1> to memref<i1>
  return %a, %c, %b, %b, %t, %s : memref<2x3xf32>, memref<3xi64>, memref<4xf64>, memref<4xf64>,
    memref<3x2xf32, strided<[1, 3]>>, memref<i1>
}
"""


class Quiet(bytes):
    """Bytes that a failing test does not print."""

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"


def manifest(code: bytes, **entries: object) -> dict[str, object]:
    """A manifest with the entries given; the others say nothing."""
    empty: dict[str, object] = {"statistics": False, "calibrated": False, "respect_dtypes": True}
    empty |= {"code": hashlib.sha256(code).hexdigest()}
    empty |= dict.fromkeys(("fma", "ops", "policy", "target"), "")
    lists = ("layers", "sources", "contractions", "parts", "buffers", "fmas", "sizes", "weights", "activations")
    empty |= {key: [] for key in lists}
    empty |= {key: {} for key in ("versions", "converted_weights", "failures")}
    return {**empty, **entries}


def sections_of(file: bytes) -> dict[str, bytes]:
    """The sections of a program file, in the order of its table."""
    count = int.from_bytes(file[12:16], "little")
    sections = {}
    for entry in (file[64 + 48 * n :][:48] for n in range(count)):
        at, size = struct.unpack_from("<QQ", entry, 24)
        sections[entry[:24].rstrip(b"\0").decode()] = file[at : at + size]
    return sections


def file_of(sections: Mapping[str, bytes], version: int = 7) -> bytes:
    """A program file of these sections, whose checksums are right; written apart from numc's own writer."""
    table, body = b"", bytearray(64 + 48 * len(sections))
    for name, data in sections.items():
        body += bytes(-len(body) % (4096 if name == "weights" else 1 if name == "signature" else 64))
        summed = name not in ("weights", "signature")
        table += struct.pack("<24sQQII", name.encode(), len(body), len(data), zlib.crc32(data) * summed, summed)
        body += data
    header = struct.pack("<8sIIQI36x", b"NUMC\r\n\x1a\n", version, len(sections), len(body), 0)
    checksum = struct.pack("<I", zlib.crc32(header + table))
    body[: 64 + len(table)] = header[:24] + checksum + header[28:] + table
    return Quiet(body)


def make(text: str, abi: Abi, weights: tuple[np.ndarray, ...] = (), **entries: object) -> Contents:
    """Compile a module whose @main takes `abi.arguments` and gives `abi.results`."""
    pointers = len(abi.arguments) + (1 if abi.results else 0)
    code = compile_object(text, pointers)
    return Contents(abi, code, weights, manifest(code, **entries), pack_ir(text))


def add() -> Contents:
    """x (?x4) + bias, the bias a weight."""
    arguments = (Input("x", "float32", (None, 4)), Weight("bias", "float32", (4,)))
    abi = Abi(
        entry="numc_entry",
        arguments=arguments,
        results=(TensorSpec("sum", "float32", (None, 4)),),
        features=frozenset({"avx"}),
        target="x86-64-v2",
    )
    return make(ADD, abi, (np.arange(4, dtype=np.float32),), fma="add")


def add_packed() -> Contents:
    """The same with the bias in the codes of e4m5: 0, 1, 2, 3."""
    contents = add()
    x, bias = contents.abi.arguments
    storage = Storage(Encoding("float", 4, 5), (1, 1, 4), 5, 4)
    bias = dataclasses.replace(bias, storage=storage)
    stored = np.frombuffer(numc.pack(contents.weights[0], "e4m5").data, np.uint8)
    return dataclasses.replace(contents, abi=dataclasses.replace(contents.abi, arguments=(x, bias)), weights=(stored,))


def parallel() -> Contents:
    """4 x in two parallel kernels (ids 5 and -1); a value above 1e6 fails with code 7."""
    abi = Abi(
        entry="numc_entry", arguments=(Input("x", "float32", (None,)),), results=(TensorSpec("y", "float32", (None,)),)
    )
    return make(PARALLEL, abi, failures={"7": "x: a value above 1e6"})


def odd_results() -> Contents:
    """Six results, most of which the run does not own."""
    arguments = (Input("a", "float32", (2, 3)), Input("flag", "bool", ()))
    rows = {
        "same": ("float32", (2, 3)),
        "table": ("int64", (3,)),
        "b1": ("float64", (4,)),
        "b2": ("float64", (4,)),
        "t": ("float32", (3, 2)),
        "flag_out": ("bool", ()),
    }
    results = tuple(TensorSpec(name, dtype, shape) for name, (dtype, shape) in rows.items())
    return make(ODD_RESULTS, Abi(entry="numc_entry", arguments=arguments, results=results))
