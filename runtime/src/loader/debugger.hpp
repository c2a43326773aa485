// Tells gdb where an object was loaded, by gdb's interface for just-in-time compilers
// (https://sourceware.org/gdb/current/onlinedocs/gdb.html/JIT-Interface.html).
#pragma once

#include <cstdint>
#include <vector>

#include "loader/relocatable.hpp"

namespace numc {

// While it lives, gdb knows the symbols of one object of an image: it has a copy of the object whose sections have the
// addresses they were loaded to.
class DebuggedObject {
 public:
  DebuggedObject(const Relocatable &object, const uint8_t *image);
  ~DebuggedObject();
  DebuggedObject(const DebuggedObject &) = delete;
  DebuggedObject &operator=(const DebuggedObject &) = delete;

 private:
  struct Entry;
  std::vector<uint8_t> copy_;
  Entry *entry_;
};

}  // namespace numc
