// The one exception of the runtime: caught at the C boundary, never thrown across generated code.
#pragma once

#include <stdexcept>
#include <string>

namespace numc {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Stores a copy of `text` in *error for the caller to numc_string_free.
void set_error(char **error, const std::string &text) noexcept;

}  // namespace numc
