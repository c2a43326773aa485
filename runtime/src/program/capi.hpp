// What the files behind the C interface share.
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <string>

#include "error.hpp"

namespace numc {

// One line for a code that call_protected returned.
std::string describe_failure(int32_t code);

// Runs `body`; an exception becomes the text in *error and the value `failed`.
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
