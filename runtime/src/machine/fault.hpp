// What a signal handler is told of an instruction that failed, in the context of the thread.
//
// Every architecture defines, inline: uintptr_t instruction(const ucontext_t &), where it is, and
// bool writes(const ucontext_t &), whether its access to memory was to write there.
#pragma once

#if defined(__x86_64__)
#include "machine/x86_64/fault.hpp"
#elif defined(__aarch64__)
#include "machine/aarch64/fault.hpp"
#endif
