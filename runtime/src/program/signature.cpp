#include "program/signature.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "error.hpp"

namespace numc {
namespace {

constexpr size_t kKeyBytes = 32, kMostPem = 1 << 16;

// The functions of libcrypto (OpenSSL 1.1.1 and 3) that are used here; objects of it are opaque.
struct Crypto {
  void *(*bio)(const void *bytes, int size);
  int (*bio_free)(void *bio);
  void *(*read_key)(void *bio, void **key, void *callback, void *user);
  void (*key_free)(void *key);
  int (*raw_key)(const void *key, unsigned char *out, size_t *size);
  void *(*context)();
  void (*context_free)(void *context);
  int (*begin)(void *context, void **pkey_context, const void *digest, void *engine, void *key);
  int (*verify)(void *context, const unsigned char *signature, size_t size, const unsigned char *message, size_t length);
};

const Crypto &crypto() {
  static const Crypto functions = [] {
    void *library = nullptr;
    for (const char *name : {"libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so"})
      if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw Error("signatures need libcrypto of OpenSSL (libcrypto.so.3): install it");
    const auto get = [library](auto &function, const char *name) {
      void *const address = dlsym(library, name);
      if (address == nullptr) throw Error(std::string("this libcrypto has no ") + name + ": want OpenSSL 1.1.1 or 3");
      std::memcpy(&function, &address, sizeof address);
    };
    Crypto found{};
    get(found.bio, "BIO_new_mem_buf"), get(found.bio_free, "BIO_free");
    get(found.read_key, "PEM_read_bio_PUBKEY"), get(found.key_free, "EVP_PKEY_free");
    get(found.raw_key, "EVP_PKEY_get_raw_public_key");
    get(found.context, "EVP_MD_CTX_new"), get(found.context_free, "EVP_MD_CTX_free");
    get(found.begin, "EVP_DigestVerifyInit"), get(found.verify, "EVP_DigestVerify");
    return found;
  }();
  return functions;
}

std::vector<char> content(const char *path) {
  const std::unique_ptr<FILE, int (*)(FILE *)> file(std::fopen(path, "rbe"), std::fclose);
  std::vector<char> bytes(kMostPem);
  if (file == nullptr) throw Error("cannot read the public key '" + std::string(path) + "': " + std::strerror(errno));
  bytes.resize(std::fread(bytes.data(), 1, bytes.size(), file.get()));
  if (std::ferror(file.get()) != 0)
    throw Error("cannot read the public key '" + std::string(path) + "': " + std::strerror(errno));
  return bytes;
}

using Owned = std::unique_ptr<void, void (*)(void *)>;

}  // namespace

void verify_signature(const char *key_path, Span message, Span signature) {
  const std::vector<char> pem = content(key_path);
  const Crypto &c = crypto();
  const std::unique_ptr<void, int (*)(void *)> bio(c.bio(pem.data(), static_cast<int>(pem.size())), c.bio_free);
  if (bio == nullptr) throw std::bad_alloc();
  const Owned key(c.read_key(bio.get(), nullptr, nullptr, nullptr), c.key_free);
  unsigned char raw[kKeyBytes];
  size_t size = sizeof raw;
  const Owned context(c.context(), c.context_free);
  if (context == nullptr) throw std::bad_alloc();
  // Keys of other kinds have other sizes, or sign nothing.
  if (key == nullptr || c.raw_key(key.get(), raw, &size) != 1 || size != kKeyBytes ||
      c.begin(context.get(), nullptr, nullptr, nullptr, key.get()) != 1)
    throw Error("'" + std::string(key_path) +
                "': no ed25519 public key: want one in PEM: openssl pkey -in private.pem -pubout -out public.pem");
  if (c.verify(context.get(), signature.data, signature.size, message.data, message.size) != 1)
    throw Error("its signature does not fit: it was changed, or signed with another key");
}

}  // namespace numc
