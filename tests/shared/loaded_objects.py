"""Objects that a C compiler writes, loaded into this process."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import pytest

from numc.runtime.library import ErrorText, library

CC = shutil.which("cc")
needs_cc = pytest.mark.skipif(CC is None, reason="no C compiler")


class LoadedObject:
    """One object in the process, for the length of a `with` block."""

    def __init__(self, data: bytes) -> None:
        self.error = ErrorText()
        self.handle = library().numc_load_object(data, len(data), self.error.reference())
        self.text = "" if self.handle else self.error.take()

    def __enter__(self):
        assert self.handle, self.text
        return self

    def __exit__(self, *_):
        library().numc_object_free(self.handle)

    def address(self, name):
        return library().numc_object_symbol(self.handle, name.encode())

    def call(self, name, *pointers, threads=1):
        args = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)
        error = ErrorText()
        code = library().numc_object_call(self.handle, self.address(name), args, threads, error.reference())
        return (code, error.take()) if code else (0, "")


def build(tmp_path, source, *flags):
    (tmp_path / "code.c").write_text(source)
    command = [CC, "-c", "-O1", "-ffreestanding", *flags, "code.c", "-o", "code.o"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    return (tmp_path / "code.o").read_bytes()
