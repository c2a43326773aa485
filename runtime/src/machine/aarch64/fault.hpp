// AArch64: the kernel adds the syndrome of the exception (ESR_EL1) to the context, whose bit 6 (WnR) says that it wrote.
#pragma once

#include <asm/sigcontext.h>
#include <ucontext.h>

#include <cstdint>
#include <cstring>

namespace numc::machine {

inline uintptr_t instruction(const ucontext_t &context) { return context.uc_mcontext.pc; }

inline bool writes(const ucontext_t &context) {
  const auto *const records = reinterpret_cast<const unsigned char *>(context.uc_mcontext.__reserved);
  const size_t room = sizeof context.uc_mcontext.__reserved;
  _aarch64_ctx head;
  for (size_t at = 0; at + sizeof head <= room; at += head.size) {
    std::memcpy(&head, records + at, sizeof head);
    if (head.magic == 0 || head.size == 0) break;
    if (head.magic != ESR_MAGIC || at + sizeof(esr_context) > room) continue;
    esr_context syndrome;
    std::memcpy(&syndrome, records + at, sizeof syndrome);
    return ((syndrome.esr >> 6) & 1) != 0;
  }
  return false;
}

}  // namespace numc::machine
