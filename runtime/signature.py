"""Signatures of program files: ed25519 (RFC 8032), computed by the package `cryptography`, with keys in PEM files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numc.support.errors import NumcError

#: Returns the signature, 64 bytes, of a message.
Signer = Callable[[bytes], bytes]
#: Returns whether a signature (the first argument) is that of a message (the second).
Verifier = Callable[[memoryview, memoryview], bool]

# How to make a key of each kind.
_MAKE = {
    "private": "openssl genpkey -algorithm ed25519 -out private.pem",
    "public": "openssl pkey -in private.pem -pubout -out public.pem",
}


def signer(path: str | os.PathLike[str]) -> Signer:
    """Return what signs with the private key in a PEM file.

    Raises NumcError if the file has no such key, or if `cryptography` is not installed.
    """
    sign: Signer = _key(path, "private").sign
    return sign


def verifier(path: str | os.PathLike[str]) -> Verifier:
    """Return what verifies with the public key in a PEM file.

    Raises NumcError if the file has no such key, or if `cryptography` is not installed.
    """
    key = _key(path, "public")
    from cryptography.exceptions import InvalidSignature

    def fits(signature: memoryview, message: memoryview) -> bool:
        try:
            key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    return fits


def _key(path: str | os.PathLike[str], kind: str) -> Any:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise NumcError("signatures need the package cryptography: pip install 'numc[sign]'") from None
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: no name of a file
        reason = error.strerror if isinstance(error, OSError) else "no such file"
        raise NumcError(f"{path}: cannot read the {kind} key: {reason}") from None
    want = f"want an ed25519 {kind} key in PEM without a password: {_MAKE[kind]}"
    try:
        if kind == "private":
            key: Any = serialization.load_pem_private_key(data, None)
            wanted: type = ed25519.Ed25519PrivateKey
        else:
            key, wanted = serialization.load_pem_public_key(data), ed25519.Ed25519PublicKey
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise NumcError(f"{path}: no {kind} key: {want}") from None
    if not isinstance(key, wanted):
        raise NumcError(f"{path}: a {kind} key of another kind: {want}")
    return key
