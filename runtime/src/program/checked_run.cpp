// A checked run (check.hpp): on copies of the inputs in guarded memory, twice, with other buffers, another pattern in
// fresh memory and another number of threads. The results have to be the same.
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "error.hpp"
#include "execution/check.hpp"
#include "execution/run.hpp"
#include "program/program.hpp"

namespace numc {
namespace {

// One of the two runs: what it was given and what it gave.
struct Attempt {
  std::vector<std::unique_ptr<void, AllocFree>> memory;
  std::vector<numc_tensor> given, taken;

  ~Attempt() {
    for (auto &tensor : taken)
      if (tensor.owner != nullptr) numc_tensor_release(&tensor);
  }
};

// Whether the program may write into input number `i`.
bool is_updated(const Abi &abi, size_t i) {
  for (const int64_t updated : abi.updated)
    if (updated == static_cast<int64_t>(i)) return true;
  return false;
}

// Inputs end where they end, at a multiple of the size of an element only: callers align them no better.
void copy_inputs(const numc_program &program, const numc_tensor *given, Layout layout, Attempt &attempt) {
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    numc_tensor tensor = given[i];
    const size_t bytes = bytes_of(tensor);
    void *const copy = checked_alloc(bytes, layout, item_size(tensor.dtype));
    if (copy == nullptr) throw std::bad_alloc();
    attempt.memory.emplace_back(copy);
    if (bytes > 0) std::memcpy(copy, tensor.data, bytes);
    if (!is_updated(program.abi, i)) forbid_writes(copy);
    tensor.data = copy;
    attempt.given.push_back(tensor);
  }
}

template <typename T>
bool both_nan(const char *a, const char *b) {
  T x, y;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  return std::isnan(x) && std::isnan(y);
}

// The number of the first element that differs, or -1. All NaNs are equal.
int64_t first_difference(const numc_tensor &first, const numc_tensor &second) {
  const size_t item = item_size(first.dtype), count = bytes_of(first) / item;
  const auto *a = static_cast<const char *>(first.data), *b = static_cast<const char *>(second.data);
  if (count == 0 || std::memcmp(a, b, count * item) == 0) return -1;
  for (size_t i = 0; i < count; ++i, a += item, b += item) {
    if (std::memcmp(a, b, item) == 0) continue;
    if (first.dtype == NUMC_F32 && both_nan<float>(a, b)) continue;
    if (first.dtype == NUMC_F64 && both_nan<double>(a, b)) continue;
    return static_cast<int64_t>(i);
  }
  return -1;
}

std::string hexadecimal(const numc_tensor &tensor, int64_t element) {
  const auto item = static_cast<int64_t>(item_size(tensor.dtype));
  const auto *bytes = static_cast<const uint8_t *>(tensor.data) + element * item;
  std::string text = "0x";
  for (int64_t i = item; i-- > 0;) text += {"0123456789abcdef"[bytes[i] >> 4], "0123456789abcdef"[bytes[i] & 15]};
  return text;
}

// What differs between the results of both runs, or an empty text.
std::string difference(const Abi &abi, const Attempt &first, const Attempt &second) {
  for (size_t i = 0; i < abi.results.size(); ++i) {
    const numc_tensor &a = first.taken[i], &b = second.taken[i];
    const std::string who = "result '" + abi.results[i].name + "'";
    if (std::memcmp(a.dims, b.dims, sizeof a.dims) != 0) return who + " has other sizes when it is computed again";
    const int64_t element = first_difference(a, b);
    if (element >= 0)
      return who + " depends on memory that the program has not written or on the number of threads: element " +
             std::to_string(element) + " is " + hexadecimal(a, element) + ", then " + hexadecimal(b, element);
  }
  return "";
}

}  // namespace
}  // namespace numc

using namespace numc;

int32_t numc_program::run_checked(const numc_tensor *given, numc_tensor *outputs, Run &state, char **error) {
  bool watched;
  {
    const Lock lock(mutex);
    watched = observer != nullptr;
  }
  Attempt attempts[2];
  const int count = watched ? 1 : 2;  // an observer must not see everything twice
  for (int n = 0; n < count; ++n) {
    Attempt &attempt = attempts[n];
    Run each;
    each.memory = state.memory;
    each.seed = state.seed;
    each.step = state.step;
    each.widths = state.widths;
    each.choices = state.choices;
    each.ranges = state.ranges;
    each.threads = n == 0 ? threads_of(state) : threads_of(state) == 1 ? 2 : 1;
    each.layout = n == 0 ? Layout::kEndsAtGuard : Layout::kBeginsAtGuard;
    copy_inputs(*this, given, each.layout, attempt);
    std::vector<numc_tensor> taken(abi.results.size());
    const int32_t code = run(attempt.given.data(), taken.data(), each, error);
    if (code != NUMC_OK) return code;
    attempt.taken = std::move(taken);
    if (n == count - 1) state.choices = each.choices;
    if (!all_untouched()) {
      set_error(error, take_fault());
      return NUMC_CHECK_FAILED;
    }
  }
  if (count == 2) {
    const std::string text = difference(abi, attempts[0], attempts[1]);
    if (!text.empty()) {
      set_error(error, text + " (found by NUMC_CHECK)");
      return NUMC_CHECK_FAILED;
    }
  }
  Attempt &first = attempts[0];
  for (size_t i = 0; i < abi.results.size(); ++i) {
    outputs[i] = first.taken[i];
    first.taken[i].owner = nullptr;
    const int64_t updated = abi.updated[i];
    if (updated < 0 || outputs[i].owner != nullptr) continue;
    std::memcpy(given[updated].data, outputs[i].data, bytes_of(outputs[i]));
    outputs[i].data = given[updated].data;
  }
  return NUMC_OK;
}
