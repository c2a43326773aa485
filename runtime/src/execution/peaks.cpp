// numc_peaks: a micro-benchmark of the processor, for the roofline of profiles.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

#include "error.hpp"
#include "execution/alloc.hpp"
#include "execution/run.hpp"
#include "machine/vectors.hpp"
#include "program/capi.hpp"

namespace numc {
namespace {

constexpr int kRounds = 5;            // of which the fastest counts: another process may disturb some
constexpr size_t kBytes = 128 << 20;  // read, or copied, in a round by all threads: more than most caches hold

uint64_t sum(const uint64_t *data, size_t count) {
  uint64_t sums[8] = {};
  for (size_t i = 0; i + 8 <= count; i += 8)
    for (size_t j = 0; j < 8; ++j) sums[j] += data[i + j];
  return sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

struct Bench {
  enum { kCompute, kRead, kCopy } what = kCompute;
  int64_t threads = 1;
  uint64_t *from = nullptr, *to = nullptr;
  double flops = 0, bytes = 0;
};

// One thread's share.
void task(void *context, int64_t begin, int64_t end) {
  const Bench &bench = *static_cast<Bench *>(context);
  for (int64_t n = begin; n < end; ++n) {
    const size_t words = kBytes / sizeof(uint64_t) / static_cast<size_t>(bench.threads);
    uint64_t *const from = bench.from + static_cast<size_t>(n) * words;
    volatile uint64_t kept;
    float factor = 0.5f;
    if (bench.what == Bench::kCompute) kept = static_cast<uint64_t>(machine::multiply_adds(&factor)) + (factor > 1e9f);
    if (bench.what == Bench::kRead) kept = sum(from, words);
    if (bench.what == Bench::kCopy) std::memcpy(bench.to + static_cast<size_t>(n) * words, from, words * 8);
    (void)kept;
  }
}

// The seconds of the fastest round.
double fastest(Bench &bench, decltype(Bench::what) what) {
  using Clock = std::chrono::steady_clock;
  bench.what = what;
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    numc_parallel(task, &bench, bench.threads, -1);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

// As the entry of a program: a run with the threads of the pool.
void measure(void **args) {
  Bench &bench = *static_cast<Bench *>(args[0]);
  float factor = 0.5f;
  const int64_t fmas = machine::multiply_adds(&factor);
  bench.flops = 2.0 * static_cast<double>(fmas * bench.threads) / fastest(bench, Bench::kCompute);
  const double read = kBytes / fastest(bench, Bench::kRead), copied = 2.0 * kBytes / fastest(bench, Bench::kCopy);
  bench.bytes = std::max(read, copied);
}

}  // namespace
}  // namespace numc

using namespace numc;

extern "C" int32_t numc_peaks(int32_t threads, double *flops, double *bytes, char **error) {
  return guarded<int32_t>(error, NUMC_BAD_INPUT, [&] {
    Run run;
    run.threads = resolve_threads(threads);
    const std::unique_ptr<uint64_t[]> memory(new uint64_t[2 * kBytes / sizeof(uint64_t)]());
    Bench bench;
    bench.threads = run.threads;
    bench.from = memory.get(), bench.to = memory.get() + kBytes / sizeof(uint64_t);
    void *args[] = {&bench};
    const int32_t code = call_protected(measure, args, run);
    free_run(run);
    if (flops != nullptr) *flops = bench.flops;
    if (bytes != nullptr) *bytes = bench.bytes;
    return code;
  });
}
