/* What generated code and the compiler call. It belongs to one version of numc, and nothing of it is checked. */
#ifndef NUMC_GENERATED_H
#define NUMC_GENERATED_H

#include <numc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calls task(context, begin, end) for ranges that cover 0 to n - 1 once, on the threads of the run. An observer is
 * called before and after if `id` is not negative. */
NUMC_API void numc_parallel(void (*task)(void *context, int64_t begin, int64_t end), void *context, int64_t n,
                            int64_t id);
/* Calls functions[i](context) for all i from 0 to n - 1, the first ones first, side by side on the threads of the run.
 * They must not depend on each other. Loops inside of them use the threads that have nothing else to do. An observed, a
 * profiled or a checked run calls them one after the other. */
NUMC_API void numc_side_by_side(void (*const *functions)(void *context), void *context, int64_t n);
/* Computes one contraction: makes what its tasks read from its description (structure Descriptor of
 * passes/kernels/abi.py), and runs the tasks by numc_parallel. */
NUMC_API void numc_contract(void (*task)(void *context, int64_t begin, int64_t end), const int64_t *description,
                            int64_t id);
/* Between numc_rows_begin and numc_rows_end, numc_contract and numc_rows_loops note down what they would compute, and
 * the buffers that @main allocates are no memory. numc_rows_end computes it, some rows after the other: row i of N is
 * the i-th of N equal parts of every such buffer and of the iterations of all loops, and row i of the batches and rows
 * of all contractions. If these do not have the same number of rows, each step computes all rows before the next step,
 * and if the run has an observer, it does so at once. */
NUMC_API void numc_rows_begin(void);
/* Does the same, and row i is batch i of all contractions, whose rows may differ. Where there are fewer batches than
 * threads, each step computes all of them before the next step. */
NUMC_API void numc_batches_begin(void);
NUMC_API void numc_rows_end(void);
/* Runs a nest of loops: calls task(context, begin, end) as numc_parallel does. The last of the `words` words of the
 * context is how many iterations a task has; bit n of `pointers` is set if word n is the address of an operand. The
 * rows share the iterations evenly. */
NUMC_API void numc_rows_loops(void (*task)(void *context, int64_t begin, int64_t end), const int64_t *context,
                              int64_t words, int64_t pointers, int64_t iterations, int64_t rows);
/* The largest magnitude in a tensor, as the bits of a float32; 0 for a tensor without elements. `sizes` holds `rank`
 * sizes, then `rank` strides in elements. If `finite` is not 0, infinities and NaNs do not count; else a NaN is larger
 * than an infinity. */
NUMC_API int32_t numc_largest(const float *data, int64_t rank, const int64_t *sizes, int32_t finite);
/* Counts the elements of an operand by exponent and by kind, and adds the counts to `out`, a structure ValueCounts of
 * passes/kernels/abi.py (283 numbers). `limits` is a structure ValueLimits (5 numbers): what a conversion makes of an
 * element. The elements are data[i + j + k] for all offsets i, j, k of three tables of `counts` offsets each, NULL for
 * the table 0, 1, 2, ...; an element that several sums reach counts once. Returns 0, or -1 if memory is short. */
NUMC_API int32_t numc_count_values(const float *data, const int64_t *const *tables, const int64_t *counts,
                                   const int64_t *limits, int64_t *out);
/* Computes `chains` sums of `depth` products each, with binary32 FMAs in ascending order, beginning with `start`. */
NUMC_API void numc_fp32_chains(const float *a, const float *b, const float *start, int64_t chains, int64_t depth,
                               float *out);
/* Adds the additions that a task counted in bit planes of `width` lanes (passes/kernels/datapaths/counting.py) to the
 * 32 numbers of `counts`. */
NUMC_API void numc_count(int64_t *counts, const uint32_t *words, int64_t width);
/* Ends the run with this code. */
NUMC_API void numc_fail(int32_t code) __attribute__((noreturn));
/* Between these two calls subnormal operands and results are zero on this thread (FTZ and DAZ). */
NUMC_API uint32_t numc_ftz_begin(void);
NUMC_API void numc_ftz_end(uint32_t saved);
/* Between these two, floating-point results are rounded toward zero on this thread. */
NUMC_API uint32_t numc_toward_zero_begin(void);
NUMC_API void numc_toward_zero_end(uint32_t saved);
/* Between these two, within any of the pairs above, results are those of IEEE-754 to nearest again, with subnormals. */
NUMC_API uint32_t numc_plain_begin(void);
NUMC_API void numc_plain_end(uint32_t saved);
/* The stream of random bits for one more execution of an operation, given its number in the program. */
NUMC_API int64_t numc_stream(int64_t operation);
/* The widths that the run chose for an operand, by its number: exponent bits times 2^32 plus significand bits. */
NUMC_API int64_t numc_width_of(int64_t slot);
/* A weight of `words` numbers that was packed in `panels` panels, converted to these widths: the address of a copy that
 * `convert` made. Its context is the address of the copy, then the widths. The program keeps the copy until it is asked
 * for other widths, and runs that use it keep it as well. */
NUMC_API int64_t numc_converted(const float *weight, int64_t words, int64_t panels, int64_t widths,
                                void (*convert)(void *context, int64_t begin, int64_t end));
/* Part number `part` of the program begins, -1 for what lies between parts. `bytes` are those of its operands and
 * results, 0 if the program's manifest has them. */
NUMC_API void numc_mark(int64_t part, int64_t bytes);
/* Whether the current run has an observer. */
NUMC_API int32_t numc_watched(void);
/* numc_exceptions_end returns whether a result since numc_exceptions_begin overflowed, or was tiny and inexact. */
NUMC_API uint32_t numc_exceptions_begin(void);
NUMC_API int32_t numc_exceptions_end(uint32_t saved);

/* What code means by malloc, aligned_alloc, free, numc_alloc, abort and memrefCopy: memory of the run, and no result
 * where it is short. A linked program has wrappers of these names, which call them. */
NUMC_API void *numc_code_buffer(size_t size);
NUMC_API void *numc_code_aligned_buffer(size_t alignment, size_t size);
NUMC_API void numc_code_free(void *buffer);
NUMC_API void *numc_code_alloc(size_t size);
NUMC_API void numc_code_abort(void) __attribute__((noreturn));
/* An unranked memref of MLIR. `words` are {allocated, aligned, offset, sizes[rank], strides[rank]}. */
typedef struct numc_unranked {
  int64_t rank;
  int64_t *words;
} numc_unranked;
NUMC_API void numc_code_memref_copy(int64_t item, numc_unranked *source, numc_unranked *target);

/* What the shared object of a program that `numc export` made says of itself: numc's version, its abi section, its
 * weights section at a multiple of 64 bytes, and its entry. `state` is NULL until its program is set up. */
typedef struct numc_linked {
  const char *version;
  const void *abi;
  uint64_t abi_size;
  const void *weights;
  uint64_t weights_size;
  void (*entry)(void **args);
  void *state;
} numc_linked;
/* The program of a shared object, which lives as long as the process; NULL on failure. The second is numc_run of it. */
NUMC_API numc_program *numc_linked_program(numc_linked *made, char **error);
NUMC_API int32_t numc_linked_run(numc_linked *made, const numc_tensor *inputs, numc_tensor *outputs, int32_t threads,
                                 char **error);

#ifdef __cplusplus
}
#endif
#endif
