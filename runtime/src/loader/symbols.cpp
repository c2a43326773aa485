// The table of external symbols that generated code may refer to. All of these functions are exact or only move memory.
// There are no transcendental functions: numc generates code for them, so that their bits are the same on every
// machine.
#include <cmath>
#include <cstring>
#include <string>
#include <unordered_map>

#include "execution/rows.hpp"
#include "loader/elf.hpp"
#include "numc.h"
#include "numc/generated.h"
#include "numc/host.h"

// These have the names of what generated code calls them by in `table` below, and in the wrappers of `numc export`.
extern "C" {

// The pass finalize-memref-to-llvm makes a call of this for every memref.copy between layouts for which memcpy will not
// do.
void numc_code_memref_copy(int64_t item, numc_unranked *source, numc_unranked *target) {
  const int64_t rank = source->rank;
  const int64_t *sizes = source->words + 3;
  const auto start = [item](const numc_unranked *m) { return reinterpret_cast<char *>(m->words[1]) + m->words[2] * item; };
  const char *from = start(source);
  char *to = start(target);
  const int64_t *from_strides = source->words + 3 + rank, *to_strides = target->words + 3 + rank;
  if (rank > NUMC_MAX_RANK) numc_fail(-1);
  int64_t index[NUMC_MAX_RANK] = {};
  for (int64_t d = 0; d < rank; ++d)
    if (sizes[d] == 0) return;
  while (true) {
    std::memcpy(to, from, static_cast<size_t>(item));
    int64_t d = rank - 1;
    for (; d >= 0; --d) {
      from += from_strides[d] * item;
      to += to_strides[d] * item;
      if (++index[d] < sizes[d]) break;
      from -= sizes[d] * from_strides[d] * item;
      to -= sizes[d] * to_strides[d] * item;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

// Generated code does not check the result of an allocation, so running out of memory ends the run here.
void *numc_code_alloc(size_t size) {
  void *memory = numc_alloc(size);
  if (memory == nullptr) numc_fail(NUMC_OUT_OF_MEMORY);
  return memory;
}

// The buffers of main: in a chain that is computed by rows they are never there as a whole.
void *numc_code_buffer(size_t size) {
  numc::Rows *const rows = numc::open_rows();
  return rows != nullptr ? rows->reserve(size) : numc_code_alloc(size);
}

void *numc_code_aligned_buffer(size_t alignment, size_t size) {
  if (alignment > 64) numc_fail(-1);  // numc_alloc aligns to 64 bytes
  return numc_code_buffer(size);
}

void numc_code_free(void *buffer) {
  if (!numc::is_in_rows(buffer)) numc_free(buffer);
}

void numc_code_abort(void) { numc_fail(-1); }

}

namespace numc {
namespace {

template <typename F>
void *address(F *function) {
  return reinterpret_cast<void *>(function);
}

using F1 = float(float);
using D1 = double(double);
using F2 = float(float, float);
using D2 = double(double, double);
using F3 = float(float, float, float);
using D3 = double(double, double, double);

const std::unordered_map<std::string, void *> &table() {
  static const auto *symbols = new std::unordered_map<std::string, void *>{
      {"malloc", address(numc_code_buffer)},
      {"aligned_alloc", address(numc_code_aligned_buffer)},
      {"free", address(numc_code_free)},
      {"numc_alloc", address(numc_code_alloc)},
      {"numc_free", address(numc_free)},
      {"numc_fail", address(numc_fail)},
      {"abort", address(numc_code_abort)},
      {"numc_parallel", address(numc_parallel)},
      {"numc_side_by_side", address(numc_side_by_side)},
      {"numc_contract", address(numc_contract)},
      {"numc_count", address(numc_count)},
      {"numc_rows_begin", address(numc_rows_begin)},
      {"numc_batches_begin", address(numc_batches_begin)},
      {"numc_rows_loops", address(numc_rows_loops)},
      {"numc_rows_end", address(numc_rows_end)},
      {"numc_largest", address(numc_largest)},
      {"numc_ftz_begin", address(numc_ftz_begin)},
      {"numc_ftz_end", address(numc_ftz_end)},
      {"numc_toward_zero_begin", address(numc_toward_zero_begin)},
      {"numc_toward_zero_end", address(numc_toward_zero_end)},
      {"numc_plain_begin", address(numc_plain_begin)},
      {"numc_plain_end", address(numc_plain_end)},
      {"numc_stream", address(numc_stream)},
      {"numc_width_of", address(numc_width_of)},
      {"numc_converted", address(numc_converted)},
      {"numc_watched", address(numc_watched)},
      {"numc_mark", address(numc_mark)},
      {"numc_exceptions_begin", address(numc_exceptions_begin)},
      {"numc_exceptions_end", address(numc_exceptions_end)},
      {"memrefCopy", address(numc_code_memref_copy)},
      {"memcpy", address<void *(void *, const void *, size_t)>(std::memcpy)},
      {"memmove", address<void *(void *, const void *, size_t)>(std::memmove)},
      {"memset", address<void *(void *, int, size_t)>(std::memset)},
      {"memcmp", address<int(const void *, const void *, size_t)>(std::memcmp)},
      {"fmaf", address<F3>(::fmaf)},
      {"fma", address<D3>(::fma)},
      {"floorf", address<F1>(::floorf)},
      {"floor", address<D1>(::floor)},
      {"ceilf", address<F1>(::ceilf)},
      {"ceil", address<D1>(::ceil)},
      {"roundevenf", address<F1>(::roundevenf)},
      {"roundeven", address<D1>(::roundeven)},
      {"truncf", address<F1>(::truncf)},
      {"trunc", address<D1>(::trunc)},
      {"rintf", address<F1>(::rintf)},
      {"rint", address<D1>(::rint)},
      {"nearbyintf", address<F1>(::nearbyintf)},
      {"nearbyint", address<D1>(::nearbyint)},
      {"roundf", address<F1>(::roundf)},
      {"round", address<D1>(::round)},
      {"fmodf", address<F2>(::fmodf)},
      {"fmod", address<D2>(::fmod)},
      {"fminf", address<F2>(::fminf)},
      {"fmin", address<D2>(::fmin)},
      {"fmaxf", address<F2>(::fmaxf)},
      {"fmax", address<D2>(::fmax)},
      {"sqrtf", address<F1>(::sqrtf)},
      {"sqrt", address<D1>(::sqrt)},
  };
  return *symbols;
}

}  // namespace

void *runtime_symbol(const std::string &name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : found->second;
}

}  // namespace numc
