// What the implementations of the C functions share.
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <string>

#include "error.hpp"

namespace numc {

// One line of text for a code that call_protected returned.
std::string describe_failure(int32_t code);

// Throws Error if a caller gave NULL for what it has to give, and needs no size to say so.
inline void want(const void *given, const char *name) {
  if (given == nullptr) throw Error(std::string(name) + " is NULL");
}

// Returns what `body` returns. If it throws, stores the text of the exception in *error and returns `failed`.
template <typename T, typename Body>
T guarded(char **error, T failed, Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    set_error(error, "out of memory");
  } catch (const std::exception &e) {
    set_error(error, e.what());
  }
  return failed;
}

}  // namespace numc
