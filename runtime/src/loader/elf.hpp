// Loads relocatable x86-64 ELF objects (ET_REL) from memory: what `ld` and `dlopen` would do, without either.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace numc {

class Object {
 public:
  // From one object, or an `ar` archive of several that may refer to each other. Throws Error on anything malformed,
  // unsupported or undefined. `bytes` is not needed afterwards.
  Object(const uint8_t *bytes, size_t size);
  ~Object();
  Object(const Object &) = delete;
  Object &operator=(const Object &) = delete;

  // Address of a global symbol that the object defines, or nullptr.
  void *symbol(const std::string &name) const;
  // Whether `address` lies in the executable part.
  bool is_code(const void *address) const;
  // Whether `address` lies anywhere in the loaded image.
  bool contains(const void *address) const;

 private:
  friend class Loader;
  uint8_t *base_ = nullptr;
  size_t size_ = 0;
  size_t code_size_ = 0;  // the executable part is [base_, base_ + code_size_)
  std::unordered_map<std::string, void *> symbols_;
};

// The fixed table of external symbols that generated code may use (symbols.cpp), or nullptr.
void *runtime_symbol(const std::string &name);

}  // namespace numc
