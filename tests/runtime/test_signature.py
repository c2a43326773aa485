"""Signed program files: every byte counts, and nothing of another file is loaded."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

import runtime_programs as programs
from numc.cli import main
from numc.runtime import Program, load, read_program
from numc.runtime import program as running
from numc.runtime.library import ErrorText, library
from numc.runtime.signature import signer, verifier
from numc.support.errors import NumcError

X = np.zeros((1, 4), np.float32)
MODEL = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"


def write_pair(folder, name, key) -> None:
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / f"{name}.pem").write_bytes(private)
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}-public.pem").write_bytes(public)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Key pairs key, other and rsa; signed.numc, signed with key; plain.numc."""
    place = tmp_path_factory.mktemp("signed")
    for name in ("key", "other"):
        write_pair(place, name, ed25519.Ed25519PrivateKey.generate())
    write_pair(place, "rsa", rsa.generate_private_key(65537, 2048))
    program = Program(programs.add())
    program.save(place / "plain.numc")
    program.save(place / "signed.numc", sign=place / "key.pem")
    return place


def test_the_signature_is_ed25519_of_all_bytes_before_it(folder, tmp_path):
    data = (folder / "signed.numc").read_bytes()
    sections = programs.sections_of(data)
    assert list(sections)[-1] == "signature"
    key = serialization.load_pem_public_key((folder / "key-public.pem").read_bytes())
    key.verify(sections["signature"], data[:-64])
    assert programs.file_of(sections) == data
    assert "signature" not in programs.sections_of((folder / "plain.numc").read_bytes())
    if shutil.which("openssl"):  # as docs/program-file.md says
        (tmp_path / "message").write_bytes(data[:-64])
        (tmp_path / "signature").write_bytes(data[-64:])
        command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", folder / "key-public.pem", "-rawin"]
        subprocess.run([*command, "-in", tmp_path / "message", "-sigfile", tmp_path / "signature"], check=True)


def test_a_signed_program_runs_with_and_without_its_key(folder):
    for key in (folder / "key-public.pem", None):
        program = load(folder / "signed.numc", verify_with=key)
        np.testing.assert_array_equal(program(X), [[0, 1, 2, 3]])
        assert not program.contents.weights[0].flags.writeable


def test_no_byte_can_be_changed(folder, tmp_path, monkeypatch):
    """Every byte of header, table and signature, and every 13th of the rest: the runtime gets nothing of the file."""
    monkeypatch.setattr(running, "library", lambda: pytest.fail("the code was loaded"))
    data = bytearray((folder / "signed.numc").read_bytes())
    head = 64 + 48 * 6
    with open(tmp_path / "changed.numc", "w+b", buffering=0) as file:
        file.write(data)
        for at in (*range(head), *range(head, len(data) - 64, 13), *range(len(data) - 64, len(data))):
            file.seek(at)
            file.write(bytes([data[at] ^ 1 << at % 8]))
            text = refused(tmp_path / "changed.numc", folder / "key-public.pem")
            if at >= head:
                assert text == "its signature does not fit: it was changed, or signed with another key"
            file.seek(at)
            file.write(data[at : at + 1])


def refused(path, key) -> str:
    """The text of the error, without the name of the file."""
    with pytest.raises(NumcError) as caught:
        load(path, verify_with=key)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"'{path}': ")


def test_what_is_refused(folder, tmp_path):
    fits = "its signature does not fit: it was changed, or signed with another key"
    unsigned = "not signed: sign it (numc compile --sign KEY), or load it without verification"
    key = folder / "key-public.pem"
    sections = programs.sections_of((folder / "signed.numc").read_bytes())
    (tmp_path / "elsewhere").write_bytes(programs.file_of({"signature": sections["signature"], **sections}))
    (tmp_path / "short").write_bytes(programs.file_of({**sections, "signature": bytes(63)}))
    (tmp_path / "after").write_bytes(programs.file_of({**sections, "more": b"x"}))
    assert refused(folder / "signed.numc", folder / "other-public.pem") == fits
    assert refused(folder / "plain.numc", key) == unsigned
    for name in ("elsewhere", "short", "after"):
        assert refused(tmp_path / name, key) == "damaged program file (the signature is not at its end)"
    with pytest.raises(NumcError, match="its signature does not fit"):
        read_program(folder / "signed.numc", verify_with=folder / "other-public.pem")


def test_keys_that_are_none(folder, tmp_path, monkeypatch):
    private = (
        "want an ed25519 private key in PEM without a password: openssl genpkey -algorithm ed25519 -out private.pem"
    )
    public = (
        "want an ed25519 public key in PEM without a password: openssl pkey -in private.pem -pubout -out public.pem"
    )
    encrypted = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )
    (tmp_path / "locked.pem").write_bytes(encrypted)
    for use, path, text in (
        (signer, tmp_path / "none.pem", "cannot read the private key: No such file or directory"),
        (signer, folder / "key-public.pem", f"no private key: {private}"),
        (signer, tmp_path / "locked.pem", f"no private key: {private}"),
        (signer, folder / "rsa.pem", f"a private key of another kind: {private}"),
        (verifier, folder / "key.pem", f"no public key: {public}"),
        (verifier, folder / "plain.numc", f"no public key: {public}"),
        (verifier, folder / "rsa-public.pem", f"a public key of another kind: {public}"),
    ):
        with pytest.raises(NumcError) as caught:
            use(path)
        assert str(caught.value) == f"{path}: {text}"
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(NumcError, match=r"^signatures need the package cryptography: pip install 'numc\[sign\]'$"):
        load(folder / "signed.numc", verify_with=folder / "key-public.pem")


def test_the_commands(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.mlir").write_text(MODEL)
    key, public = folder / "key.pem", folder / "key-public.pem"

    def error(*arguments) -> str:
        assert main(list(map(str, arguments))) == 2
        return capsys.readouterr().err.strip()

    assert main(["compile", "m.mlir", "--sign", str(key)]) == 0
    assert main(["run", "m.numc", "--random-input", "0", "--verify-with", str(public)]) == 0
    capsys.readouterr()
    run = ("run", "m.numc", "--random-input", "0", "--verify-with")
    assert "m.numc': its signature does not fit" in error(*run, folder / "other-public.pem")
    assert "m.mlir: is a model, --verify-with is about program files" in error("run", "m.mlir", "--verify-with", public)
    assert "--emit writes IR text, which is not signed" in error("compile", "m.mlir", "--emit", "numc", "--sign", key)
    monkeypatch.setattr("numc.compiler.programs.compile.to_file", None)  # wrong keys are found first
    assert "key-public.pem: no private key" in error("compile", "m.mlir", "--sign", public)


def test_c_verifies_by_libcrypto(folder, tmp_path):
    """numc_program_load_signed: the errors are those of Python."""
    load_signed = library().numc_program_load_signed
    load_signed.restype, load_signed.argtypes = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)

    def loaded(program, key) -> str:
        error = ErrorText()
        made = load_signed(str(program).encode(), str(key).encode(), error.reference())
        if made is None:
            return error.take()
        library().numc_program_free(made)
        return ""

    signed, key = folder / "signed.numc", folder / "key-public.pem"
    text = loaded(signed, key)
    if text.endswith("signatures need libcrypto of OpenSSL (libcrypto.so.3): install it"):
        pytest.skip("no libcrypto")
    assert text == ""
    other = f"'{signed}': its signature does not fit: it was changed, or signed with another key"
    assert loaded(signed, folder / "other-public.pem") == other
    no_key = "no ed25519 public key: want one in PEM: openssl pkey -in private.pem -pubout -out public.pem"
    for name in ("rsa-public.pem", "key.pem", "plain.numc"):
        assert loaded(signed, folder / name) == f"'{signed}': '{folder / name}': {no_key}"
    missing = f"'{signed}': cannot read the public key '{folder}/none': No such file or directory"
    assert loaded(signed, folder / "none") == missing
    plain = folder / "plain.numc"
    assert (
        loaded(plain, key)
        == f"'{plain}': not signed: sign it (numc compile --sign KEY), or load it without verification"
    )
    data = bytearray(signed.read_bytes())
    for at in range(64 + 48 * 6, len(data), 97):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        (tmp_path / "changed.numc").write_bytes(changed)
        assert loaded(tmp_path / "changed.numc", key), at
