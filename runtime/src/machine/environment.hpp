// The floating-point environment of the calling thread, as one word: rounding, subnormals, traps and exception flags.
//
// Every architecture has a folder beside this file, which alone knows it. Its environment.hpp defines, inline:
//   uint32_t environment();               the environment of this thread
//   void set_environment(uint32_t word);  another one
//   constexpr uint32_t kDefault;          nearest even, subnormals kept, exceptions masked, no flag raised
//   constexpr uint32_t kFlags;            the bits of the exception flags
//   constexpr uint32_t kLost;             those of results that overflowed, or were tiny and inexact
//   constexpr uint32_t kFlushed;          the bits that replace subnormal operands and results by zeros
//   constexpr uint32_t kTowardZero;       the bits of rounding, all of which are set where it is toward zero
//   uint32_t masked(uint32_t word);       the same environment, in which no exception traps
//   void pause();                         a hint that this thread spins
//   int64_t ticks();                      a clock that takes nanoseconds to read
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include "machine/x86_64/environment.hpp"
#elif defined(__aarch64__)
#include "machine/aarch64/environment.hpp"
#else
#error "numc has no folder for this architecture in runtime/src/machine"
#endif

namespace numc::machine {

// While it lives, this thread has the default floating-point environment.
class DefaultEnvironment {
 public:
  DefaultEnvironment() : saved_(environment()) { set_environment(kDefault); }
  ~DefaultEnvironment() { set_environment(saved_); }
  DefaultEnvironment(const DefaultEnvironment &) = delete;
  DefaultEnvironment &operator=(const DefaultEnvironment &) = delete;

 private:
  uint32_t saved_;
};

}  // namespace numc::machine
