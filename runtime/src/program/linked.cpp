// Programs that a linker made shared objects of (numc export): their code and weights are mapped already.
#include <atomic>
#include <cstring>
#include <memory>
#include <string>

#include "error.hpp"
#include "execution/mutex.hpp"
#include "numc/generated.h"
#include "program/capi.hpp"
#include "program/program.hpp"

namespace {

// Threads that ask for a program at once set it up once.
numc::Mutex &making() {
  static auto *const mutex = new numc::Mutex;
  return *mutex;
}

// Throws numc::Error.
numc_program *program_of(numc_linked &made) {
  auto *const state = reinterpret_cast<std::atomic<void *> *>(&made.state);
  if (void *const known = state->load(std::memory_order_acquire)) return static_cast<numc_program *>(known);
  const numc::Lock lock(making());
  if (void *const known = state->load(std::memory_order_acquire)) return static_cast<numc_program *>(known);
  if (std::strcmp(made.version, NUMC_VERSION) != 0)
    throw numc::Error("libnumc_runtime.so is of numc " NUMC_VERSION ", and this shared object was made by numc " +
                      std::string(made.version) + ": want both from one export");
  auto program = std::make_unique<numc_program>();
  program->set_up(made);
  state->store(program.get(), std::memory_order_release);
  return program.release();
}

static_assert(sizeof(std::atomic<void *>) == sizeof(void *), "generated data has a pointer there");

}  // namespace

extern "C" {

numc_program *numc_linked_program(numc_linked *made, char **error) {
  return numc::guarded<numc_program *>(error, nullptr, [&] { return program_of(*made); });
}

int32_t numc_linked_run(numc_linked *made, const numc_tensor *inputs, numc_tensor *outputs, int32_t threads,
                        char **error) {
  numc_program *const program = numc_linked_program(made, error);
  return program == nullptr ? NUMC_BAD_INPUT : numc_run(program, inputs, outputs, threads, error);
}
}
