// The C functions for single objects (numc_object_...), and error texts, which the functions for programs use as well.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "execution/alloc.hpp"
#include "program/capi.hpp"
#include "loader/elf.hpp"
#include "error.hpp"
#include "numc.h"
#include "numc/host.h"
#include "execution/run.hpp"

namespace numc {

void set_error(char **error, const std::string &text) noexcept {
  if (error == nullptr) return;
  *error = strdup(text.c_str());
  // The text stays on one line even if names in a damaged file hold control characters.
  for (char *c = *error; c != nullptr && *c != '\0'; ++c)
    if (static_cast<unsigned char>(*c) < ' ' || *c == 127) *c = '?';
}

std::string describe_failure(int32_t code) {
  if (code == NUMC_OUT_OF_MEMORY) {
    char text[160];
    std::snprintf(text, sizeof text, "the program ran out of memory: its buffers may take %.4g GiB, which is %s",
                  static_cast<double>(resolve_memory()) / (1 << 30),
                  std::getenv("NUMC_MEMORY") != nullptr ? "NUMC_MEMORY" : "the machine's memory (NUMC_MEMORY=N: N GiB)");
    return text;
  }
  if (code == NUMC_CHECK_FAILED) return take_fault();
  if (code == NUMC_BAD_FREE) return "the program freed a buffer twice";
  return "the program stopped with code " + std::to_string(code);
}

}  // namespace numc

struct numc_object {
  numc::Object object;
};

extern "C" {

const char *numc_version(void) { return NUMC_VERSION; }

void numc_string_free(char *text) { std::free(text); }

numc_object *numc_load_object(const void *bytes, size_t size, char **error) {
  return numc::guarded<numc_object *>(error, nullptr, [&] {
    numc::want(bytes, "bytes");
    return new numc_object{{static_cast<const uint8_t *>(bytes), size}};
  });
}

void *numc_object_symbol(const numc_object *object, const char *name) {
  return object != nullptr && name != nullptr ? object->object.symbol(name) : nullptr;
}

int32_t numc_object_call(const numc_object *, void *function, void **args, int32_t threads, char **error) {
  return numc::guarded<int32_t>(error, NUMC_BAD_INPUT, [&] {
    numc::want(function, "function");
    numc::Run run;
    run.threads = numc::resolve_threads(threads);
    run.memory = numc::resolve_memory();
    const int32_t code = numc::call_protected(reinterpret_cast<void (*)(void **)>(function), args, run);
    // Memory that the function hands over through its arguments belongs to the caller. Only a failed call is freed
    // here.
    code == 0 ? numc::release_all(run) : numc::free_run(run);
    if (code != 0) numc::set_error(error, numc::describe_failure(code));
    return code;
  });
}

void numc_object_free(numc_object *object) { delete object; }
}
