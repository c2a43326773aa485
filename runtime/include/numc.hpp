// The numc runtime for C++17: numc.h with exceptions and owners. It has no code of its own to link.
//
//   numc::Program program("model.numc");
//   std::vector<float> x(64);
//   auto outputs = program.run({numc::tensor(x.data(), {1, 64})});
//   const float *logits = outputs[0].data<float>();
//
// Every function that can fail throws numc::Error with the one line that numc.h gives.
#pragma once

#include <numc.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace numc {

// What went wrong, in one line. code: what numc_run returned, NUMC_BAD_INPUT for all else.
class Error : public std::runtime_error {
 public:
  Error(const std::string &text, int32_t code) : std::runtime_error(text), code(code) {}
  const int32_t code;
};

// Throws the Error of a text that a function of numc.h made, and releases it.
[[noreturn]] inline void fail(char *text, int32_t code = NUMC_BAD_INPUT) {
  const std::string line = text != nullptr ? text : "unknown error";
  numc_string_free(text);
  throw Error(line, code);
}

// The numc_dtype of a type of C++. Types that C++ lacks, such as bfloat16, are given by their number.
template <typename T>
constexpr int32_t dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>) return NUMC_F32;
  else if constexpr (std::is_same_v<U, double>) return NUMC_F64;
  else if constexpr (std::is_same_v<U, bool>) return NUMC_I1;
  else {
    static_assert(std::is_integral_v<U>, "want float, double, bool or an integer, or the number of a numc_dtype");
    constexpr int32_t with_sign[] = {NUMC_I8, NUMC_I16, 0, NUMC_I32, 0, 0, 0, NUMC_I64};
    constexpr int32_t without[] = {NUMC_U8, NUMC_U16, 0, NUMC_U32, 0, 0, 0, NUMC_U64};
    return std::is_signed_v<U> ? with_sign[sizeof(U) - 1] : without[sizeof(U) - 1];
  }
}

// A dense row-major tensor in the caller's memory, which has to live until the run has ended.
inline numc_tensor tensor(const void *data, int32_t dtype, const std::vector<int64_t> &dims) {
  if (dims.size() > NUMC_MAX_RANK)
    throw Error("a tensor of rank " + std::to_string(dims.size()) + ", want at most " + std::to_string(NUMC_MAX_RANK),
                NUMC_BAD_INPUT);
  numc_tensor made{};
  made.data = const_cast<void *>(data);
  made.dtype = dtype;
  made.rank = static_cast<int32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), made.dims);
  return made;
}

template <typename T>
numc_tensor tensor(const T *data, std::initializer_list<int64_t> dims) {
  return tensor(static_cast<const void *>(data), dtype_of<T>(), std::vector<int64_t>(dims));
}

// A result, which owns its memory.
class Output {
 public:
  explicit Output(const numc_tensor &tensor) : tensor_(tensor) {}
  Output(Output &&other) noexcept : tensor_(std::exchange(other.tensor_, numc_tensor{})) {}
  Output &operator=(Output &&other) noexcept {
    std::swap(tensor_, other.tensor_);
    return *this;
  }
  ~Output() { numc_tensor_release(&tensor_); }

  const numc_tensor &raw() const { return tensor_; }
  std::vector<int64_t> dims() const { return {tensor_.dims, tensor_.dims + tensor_.rank}; }
  int64_t size() const {
    int64_t count = 1;
    for (int32_t d = 0; d < tensor_.rank; ++d) count *= tensor_.dims[d];
    return count;
  }
  // The elements. Throws Error if they are of another type.
  template <typename T>
  const T *data() const {
    if (tensor_.dtype != dtype_of<T>())
      throw Error("an output of dtype " + std::to_string(tensor_.dtype) + ", want it as that, not as dtype " +
                      std::to_string(dtype_of<T>()),
                  NUMC_BAD_INPUT);
    return static_cast<const T *>(tensor_.data);
  }

 private:
  numc_tensor tensor_;
};

// A loaded program, or that of a shared object of `numc export`. It may run in several threads at once.
class Program {
 public:
  explicit Program(const std::string &path) {
    char *error = nullptr;
    program_ = numc_program_load(path.c_str(), &error);
    if (program_ == nullptr) fail(error);
  }
  // One that is signed, by the public key in a PEM file.
  Program(const std::string &path, const std::string &public_key) {
    char *error = nullptr;
    program_ = numc_program_load_signed(path.c_str(), public_key.c_str(), &error);
    if (program_ == nullptr) fail(error);
  }
  // Takes over a program of numc.h, such as that which the function <name>_program of a shared object returns.
  explicit Program(numc_program *program) : program_(program) {
    if (program == nullptr) throw Error("program is NULL", NUMC_BAD_INPUT);
  }
  Program(Program &&other) noexcept : program_(std::exchange(other.program_, nullptr)) {}
  Program &operator=(Program &&other) noexcept {
    std::swap(program_, other.program_);
    return *this;
  }
  ~Program() { numc_program_free(program_); }

  numc_program *raw() const { return program_; }
  int32_t inputs() const { return numc_input_count(program_); }
  int32_t outputs() const { return numc_output_count(program_); }
  std::string input_name(int32_t index) const { return text(numc_input_name(program_, index)); }
  std::string output_name(int32_t index) const { return text(numc_output_name(program_, index)); }

  // One run. The inputs are in the order of the program; options as in numc.h, whose `size` is set here.
  std::vector<Output> run(const std::vector<numc_tensor> &given, numc_run_options options = {}) const {
    if (static_cast<int32_t>(given.size()) != inputs())
      throw Error("got " + std::to_string(given.size()) + " inputs, want " + std::to_string(inputs()),
                  NUMC_BAD_INPUT);
    options.size = sizeof options;
    std::vector<numc_tensor> made(static_cast<size_t>(outputs()));
    char *error = nullptr;
    const int32_t code = numc_run_with(program_, given.data(), made.data(), &options, &error);
    if (code != NUMC_OK) fail(error, code);
    std::vector<Output> results;
    results.reserve(made.size());
    for (const auto &each : made) results.emplace_back(each);
    return results;
  }

 private:
  static std::string text(const char *name) { return name != nullptr ? name : ""; }

  numc_program *program_;
};

}  // namespace numc
