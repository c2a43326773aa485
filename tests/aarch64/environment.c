/* The modes that generated code asks for, as the processor has them: says "ok", or what is wrong. */
#include <numc/generated.h>
#include <numc/host.h>

#include <float.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int failed;

static uint64_t control(void) {
  uint64_t word;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}

static void set_control(uint64_t word) { __asm__ volatile("msr fpcr, %0" : : "r"(word)); }

static uint64_t status(void) {
  uint64_t word;
  __asm__ volatile("mrs %0, fpsr" : "=r"(word));
  return word;
}

static void set_status(uint64_t word) { __asm__ volatile("msr fpsr, %0" : : "r"(word)); }

static void check(const char *what, uint64_t got, uint64_t want) {
  if (got != want) failed = printf("%s: got 0x%llx, want 0x%llx\n", what, (long long)got, (long long)want);
}

/* Operations that a compiler leaves where they are. */
static float times(float a, float b) {
  float found;
  __asm__ volatile("fmul %s0, %s1, %s2" : "=w"(found) : "w"(a), "w"(b));
  return found;
}

static float sum(float a, float b) {
  float found;
  __asm__ volatile("fadd %s0, %s1, %s2" : "=w"(found) : "w"(a), "w"(b));
  return found;
}

static uint32_t bits(float x) {
  uint32_t word;
  memcpy(&word, &x, sizeof word);
  return word;
}

int main(void) {
  enum { kFz = 1 << 24, kTowardZero = 3 << 22, kUpward = 1 << 22, kInexact = 0x10, kOverflow = 0x04, kQc = 1 << 27 };
  set_status(kQc | kInexact);
  const uint32_t flushed = numc_ftz_begin();
  check("flushing", control(), kFz);
  check("a flushed product", bits(times(FLT_MIN, 0.5f)), 0);
  check("a flushed product below zero", bits(times(-FLT_MIN, 0.5f)), 0x80000000);
  check("a flushed operand", bits(times(FLT_MIN / 2, 4.0f)), 0);
  const uint32_t plain = numc_plain_begin();
  check("plain", control(), 0);
  check("a plain product", bits(times(FLT_MIN, 0.5f)), 0x00400000);
  numc_plain_end(plain);
  check("flushing again", control(), kFz);
  numc_ftz_end(flushed);
  check("as before", control(), 0);
  check("flags stay", status() & (kQc | kInexact), kQc | kInexact);

  const uint32_t cut = numc_toward_zero_begin();
  check("toward zero", control(), kTowardZero);
  check("a cut sum", bits(sum(1.0f, FLT_EPSILON * 0.75f)), 0x3f800000);
  numc_toward_zero_end(cut);
  check("a rounded sum", bits(sum(1.0f, FLT_EPSILON * 0.75f)), 0x3f800001);

  /* What the process has set is back afterwards, and its flags are. */
  set_control(kUpward);
  set_status(kInexact);
  uint32_t saved = numc_exceptions_begin();
  check("no flags meanwhile", status() & 0x9f, 0);
  sum(1.0f, 1.0f);
  check("nothing was lost", numc_exceptions_end(saved) != 0, 0);
  check("the flag from before", status() & 0x9f, kInexact);
  saved = numc_exceptions_begin();
  times(FLT_MAX, 2.0f);
  check("an overflow", numc_exceptions_end(saved) != 0, 1);
  check("its flag", status() & kOverflow, kOverflow);
  set_status(0);
  saved = numc_exceptions_begin();
  times(FLT_MIN, 0.5f + FLT_EPSILON / 2);
  check("tiny and inexact", numc_exceptions_end(saved) != 0, 1);
  saved = numc_exceptions_begin();
  times(FLT_MIN, 0.5f);
  check("tiny and exact", numc_exceptions_end(saved) != 0, 0);
  check("the direction from before", control(), kUpward);
  set_control(0);

  int bit = 0;
  while (numc_feature_name(bit) != NULL) ++bit;
  check("names", bit > 5 && strcmp(numc_feature_name(0), "asimd") == 0, 1);
  check("vectors", numc_cpu_features() & 1, 1);
  check("no matrices of Intel's", (uint64_t)numc_request_amx(), 0);
  if (!failed) printf("ok\n");
  return 0;
}
