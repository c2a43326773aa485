// What generated code asks of the floating-point environment (machine/environment.hpp).
#include "machine/environment.hpp"
#include "numc/generated.h"

extern "C" {

using namespace numc::machine;

uint32_t numc_ftz_begin(void) {
  const uint32_t saved = environment();
  set_environment(saved | kFlushed);
  return saved;
}

// Restores the control bits. Exception flags that were raised since numc_ftz_begin stay raised.
void numc_ftz_end(uint32_t saved) { set_environment((saved & ~kFlags) | (environment() & kFlags)); }

uint32_t numc_toward_zero_begin(void) {
  const uint32_t saved = environment();
  set_environment(saved | kTowardZero);
  return saved;
}

void numc_toward_zero_end(uint32_t saved) { numc_ftz_end(saved); }

uint32_t numc_plain_begin(void) {
  const uint32_t saved = environment();
  set_environment(saved & ~(kTowardZero | kFlushed));
  return saved;
}

void numc_plain_end(uint32_t saved) { numc_ftz_end(saved); }

// Between the two calls the flags tell whether a result overflowed, or was tiny and inexact. No exception traps
// meanwhile, whatever the process has asked for. Flags that were raised before stay raised.
uint32_t numc_exceptions_begin(void) {
  const uint32_t saved = environment();
  set_environment(masked(saved & ~kFlags));
  return saved;
}

int32_t numc_exceptions_end(uint32_t saved) {
  const uint32_t raised = environment() & kFlags;
  set_environment(saved | raised);
  return (raised & kLost) != 0;
}
}
