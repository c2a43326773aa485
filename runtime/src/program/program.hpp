// A loaded program: what load.cpp sets up, describe.cpp describes and run_program.cpp runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "execution/mutex.hpp"
#include "execution/run.hpp"
#include "loader/elf.hpp"
#include "numc.h"
#include "numc/generated.h"
#include "numc/host.h"
#include "program/container.hpp"

namespace numc {

// A program file in memory. What comes before its weights is a private copy, which nobody can change while it is
// checked and used. The weights are mapped for reading, or copied as well if the environment variable NUMC_COPY_WEIGHTS
// asks for it.
class Mapping {
 public:
  // Throws Error if there is no such file or it cannot be read. copies: the weights are copied in any case.
  explicit Mapping(const char *path, bool copies = false);
  ~Mapping();
  Mapping(const Mapping &) = delete;
  Mapping &operator=(const Mapping &) = delete;
  Span span() const { return {data_, size_}; }

 private:
  Mapping() = default;

  uint8_t *data_ = nullptr;
  size_t size_ = 0;
};

struct AllocFree {
  void operator()(void *memory) const { numc_free(memory); }
};

// Appends the descriptor of a dense row-major tensor, as MLIR passes memrefs: {allocated, aligned, offset, sizes[rank],
// strides[rank]}.
void append_descriptor(std::vector<int64_t> &words, const void *data, const int64_t *dims, size_t rank);

// The length of such a descriptor.
inline size_t descriptor_words(size_t rank) { return 3 + 2 * rank; }

}  // namespace numc

struct numc_program {
  using AllocFree = numc::AllocFree;

  std::unique_ptr<numc::Mapping> mapping;
  std::unique_ptr<void, AllocFree> aligned_weights;
  std::vector<std::unique_ptr<void, AllocFree>> expanded;  // those that the file holds packed; in checked runs, copies
  numc::Abi abi;
  std::unique_ptr<numc::Object> object;       // of a program that was loaded
  const numc_linked *linked = nullptr;        // of one that a linker made, which lives as long as the process
  void (*entry)(void **) = nullptr;
  std::vector<const numc::Value *> inputs;
  std::vector<std::vector<int64_t>> weights[2];  // their descriptors, in the order of the arguments, by Layout
  size_t input_words = 0, result_words = 0;  // the lengths of all their descriptors
  numc::Mutex mutex;  // guards the observer
  numc_observer observer = nullptr;
  void *observer_user = nullptr;
  std::atomic<uint64_t> executions{0};  // runs that were given no seed
  numc::ConvertedWeights converted;

  // Sets the program up from a container, whose bytes have to outlive it. Throws Error.
  void set_up(const numc::Container &container);
  // The same without the weights, which add_weight adds in the order of the arguments.
  void set_up(numc::Span abi_bytes, numc::Span code);
  void add_weight(const numc::Value &value, const void *data);
  // The same for a program that a linker made.
  void set_up(const numc_linked &made);
  // Whether an address lies in the code and its constants.
  bool has_in_code(const void *address) const;

 private:
  void read(numc::Span abi_bytes, numc::Span code = {});
  void add_weights(numc::Span data);

 public:
  // Throws Error for inputs of another dtype or shape.
  void check_inputs(const numc_tensor *given) const;
  // Runs the program on inputs that are as they should be, with the threads and random bits of `state`. See numc_run.
  int32_t run(const numc_tensor *given, numc_tensor *outputs, numc::Run &state, char **error);
  // Runs it twice as check.hpp describes and compares the results (checked_run.cpp).
  int32_t run_checked(const numc_tensor *given, numc_tensor *outputs, numc::Run &state, char **error);
};
