// The exception of the runtime. The C functions catch it, and it is never thrown through generated code.
#pragma once

#include <stdexcept>
#include <string>

namespace numc {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Stores a copy of `text` in *error, unless `error` is null. The caller releases it with numc_string_free.
void set_error(char **error, const std::string &text) noexcept;

}  // namespace numc
