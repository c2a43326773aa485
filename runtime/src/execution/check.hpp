// NUMC_CHECK=1: memory in which a fault of a program shows. Every buffer lies between two pages that cannot be touched,
// ends at one of them or begins behind the other, and is filled with a pattern. docs/checking.md describes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace numc {

struct Run;

// Whether NUMC_CHECK is 1. It is read once.
bool checking();

// Throws Error if NUMC_CHECK has a value that it must not have.
void validate_check_switch();

// A checked run is made twice, each time with its own layout: buffers that end at a page that cannot be touched and
// hold NaNs, then buffers that begin behind such a page and hold 1.5. What a run reads beyond a buffer ends it, and
// what it reads without having written it changes its results.
enum class Layout : uint8_t { kEndsAtGuard, kBeginsAtGuard };

// A buffer at a multiple of `alignment`, a power of two up to 64; null if memory is short. The current run owns it.
void *checked_alloc(size_t size, Layout layout, size_t alignment = 64);

// Frees such a buffer. Returns false for any other address.
bool checked_free(void *buffer);

// From now on writing into the buffer is a fault.
void forbid_writes(void *buffer);

// Whether nothing was written beside any buffer; else take_fault() tells of one.
bool all_untouched();

// What alloc.hpp has for the blocks of a run.
bool checked_release(Run &run, void *buffer);
void checked_release_all(Run &run);
void checked_free_run(Run &run);

// Makes a fault in generated code or at a buffer end the run with NUMC_CHECK_FAILED.
void catch_faults();

// What was wrong, in one line, after NUMC_CHECK_FAILED.
std::string take_fault();

}  // namespace numc
