// x86-64: the error code of a page fault has bit 1 set for a write.
#pragma once

#include <ucontext.h>

#include <cstdint>

namespace numc::machine {

inline uintptr_t instruction(const ucontext_t &context) {
  return static_cast<uintptr_t>(context.uc_mcontext.gregs[REG_RIP]);
}

inline bool writes(const ucontext_t &context) { return (context.uc_mcontext.gregs[REG_ERR] & 2) != 0; }

}  // namespace numc::machine
