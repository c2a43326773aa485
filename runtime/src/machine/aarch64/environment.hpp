// AArch64: the control and the status register (FPCR, FPSR), and the counter of the generic timer.
#pragma once

#include <cstdint>

namespace numc::machine {

// Both registers as one word: FPSR has its flags (IOC, DZC, OFC, UFC, IXC, IDC) in bits 0 to 4 and 7, where FPCR has
// nothing but FIZ, AH and NEP in bits 0 to 2. These are kept in bits 28 to 30, where FPCR has nothing.
constexpr uint32_t kDefault = 0, kFlags = 0x9f, kLost = 0x0c;             // OFC and UFC
constexpr uint32_t kFlushed = uint32_t{1} << 24, kTowardZero = 0x00c00000;  // FZ; RMode
constexpr uint32_t kTraps = 0x9f00, kAlternative = 7;
constexpr int kMoved = 28;

inline uint32_t environment() {
  uint64_t control, status;
  __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(control), "=r"(status) : : "memory");
  const auto word = static_cast<uint32_t>(control);
  return (word & ~(kAlternative | kFlags)) | (word & kAlternative) << kMoved | (static_cast<uint32_t>(status) & kFlags);
}

inline void set_environment(uint32_t word) {
  const uint64_t control = (word & ~(kFlags | kAlternative << kMoved)) | ((word >> kMoved) & kAlternative);
  uint64_t status;
  __asm__ volatile("mrs %0, fpsr" : "=r"(status));
  status = (status & ~uint64_t{kFlags}) | (word & kFlags);  // QC, of integers, stays
  __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(control), "r"(status) : "memory");
}

inline uint32_t masked(uint32_t word) { return word & ~kTraps; }
inline void pause() { __asm__ volatile("yield"); }

// One tick is 1 ns from Armv8.6 on, and some tens of ns before.
inline int64_t ticks() {
  int64_t count;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
}

}  // namespace numc::machine
