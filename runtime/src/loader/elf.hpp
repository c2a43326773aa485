// Loads relocatable ELF objects from memory into one executable image: places their sections, resolves their
// symbols and relocates their code, as a linker and `dlopen` would do from files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "loader/debugger.hpp"
#include "loader/perf.hpp"
#include "loader/tools.hpp"

namespace numc {

class Object {
 public:
  // Loads one object, or an `ar` archive of several that may refer to each other. Throws Error on anything malformed,
  // unsupported or undefined, and for an environment that requested_tools refuses. `bytes` is not needed afterwards.
  Object(const uint8_t *bytes, size_t size);
  ~Object();
  Object(const Object &) = delete;
  Object &operator=(const Object &) = delete;

  // The address of a global symbol that the object defines, or nullptr.
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
  std::vector<std::unique_ptr<DebuggedObject>> debugged_;  // what the debugger was told of
};

// The address of an external symbol that generated code may use (symbols.cpp), or nullptr if it is not one of them.
void *runtime_symbol(const std::string &name);

}  // namespace numc
