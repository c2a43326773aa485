// Signatures of program files: ed25519 (RFC 8032), verified by OpenSSL's libcrypto, which is loaded when it is needed.
#pragma once

#include "program/container.hpp"

namespace numc {

// Throws Error unless `signature` is that of `message` by the public key in the PEM file `key_path`, and where there is
// no libcrypto or the file has no such key.
void verify_signature(const char *key_path, Span message, Span signature);

}  // namespace numc
