/* numc runtime: load a program file (code, weights, description) and run it. x86-64 Linux, no dependency but pthread.
 *
 * Loading a program maps its machine code into this process and running it executes that code: open only files you
 * trust. Every function may be called from several threads at once; one program may run in several threads at once.
 *
 * Functions that can fail take `char **error` (may be NULL). On failure *error is a one-line text to be released with
 * numc_string_free(); on success it is left as it was.
 */
#ifndef NUMC_H
#define NUMC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NUMC_API __attribute__((visibility("default")))
#define NUMC_VERSION "0.1.0"
#define NUMC_MAX_RANK 16
#define NUMC_MAX_THREADS 1024

typedef enum numc_dtype {
  NUMC_F32 = 0,
  NUMC_F64 = 1,
  NUMC_I1 = 2, /* one byte, 0 or 1 */
  NUMC_I8 = 3,
  NUMC_I16 = 4,
  NUMC_I32 = 5,
  NUMC_I64 = 6,
  NUMC_U8 = 7
} numc_dtype;

/* What numc_run and numc_object_call return. A positive value is the code that the program gave to numc_fail(). */
enum { NUMC_OK = 0, NUMC_BAD_INPUT = -1, NUMC_OUT_OF_MEMORY = -2, NUMC_BAD_FREE = -3 };

/* A dense row-major tensor. In inputs `data` is borrowed and `owner` ignored; numc_run fills outputs in, and
 * numc_tensor_release gives their memory back. An output whose `owner` is NULL is in the memory of an input: only programs
 * that were compiled to update inputs write into them. */
typedef struct numc_tensor {
  void *data;
  int32_t dtype; /* numc_dtype */
  int32_t rank;
  int64_t dims[NUMC_MAX_RANK];
  void *owner;
} numc_tensor;

typedef struct numc_program numc_program;
typedef struct numc_object numc_object;

/* Called on the thread that called numc_run, before (phase 0) and after (phase 1) every outermost parallel kernel whose
 * id is not negative. `context` is the kernel's captured operands, laid out as the compiler's manifest says. */
typedef void (*numc_observer)(void *user, int64_t id, void *context, int32_t phase);

NUMC_API const char *numc_version(void);
NUMC_API void numc_string_free(char *text);

/* Programs. A file is mapped, its weights are read on first use. load_memory borrows `bytes` until numc_program_free.
 * from_parts takes the `abi` section and the object code by copy and borrows the weights (in the order of the abi).
 * Weights in the bytes of their number format are expanded here, into memory of the program. */
NUMC_API numc_program *numc_program_load(const char *path, char **error);
NUMC_API numc_program *numc_program_load_memory(const void *bytes, size_t size, char **error);
NUMC_API numc_program *numc_program_from_parts(const void *abi, size_t abi_size, const void *code, size_t code_size,
                                               const void *const *weights, size_t weight_count, char **error);
NUMC_API void numc_program_free(numc_program *program);

/* Expands one weight as loading does: `storage` is its record in the abi section, `count` that of the float32 numbers. */
NUMC_API int32_t numc_expand(const void *storage, size_t storage_size, const void *stored, size_t stored_size,
                             float *out, size_t count, char **error);

/* Description. A dimension of -1 is free: the caller of numc_run chooses it. An index out of range gives NULL or -1. */
NUMC_API int32_t numc_input_count(const numc_program *program);
NUMC_API const char *numc_input_name(const numc_program *program, int32_t index);
NUMC_API int32_t numc_input_dtype(const numc_program *program, int32_t index);
NUMC_API int32_t numc_input_rank(const numc_program *program, int32_t index);
NUMC_API const int64_t *numc_input_dims(const numc_program *program, int32_t index);
NUMC_API int32_t numc_output_count(const numc_program *program);
NUMC_API const char *numc_output_name(const numc_program *program, int32_t index);
NUMC_API int32_t numc_output_dtype(const numc_program *program, int32_t index);
NUMC_API int32_t numc_output_rank(const numc_program *program, int32_t index);
NUMC_API const int64_t *numc_output_dims(const numc_program *program, int32_t index);

/* Runs the program on numc_input_count inputs and fills numc_output_count outputs in. threads <= 0 means the
 * environment's NUMC_NUM_THREADS, else the CPUs this process may use. Returns NUMC_OK, or the outputs are untouched. */
NUMC_API int32_t numc_run(numc_program *program, const numc_tensor *inputs, numc_tensor *outputs, int32_t threads,
                          char **error);
/* The same with a seed for stochastic roundings (:srN): equal seeds draw equal bits, whatever ran before. numc_run takes
 * seed 0 and the number of runs of this program that were given no seed: every one of them draws anew. */
NUMC_API int32_t numc_run_seeded(numc_program *program, const numc_tensor *inputs, numc_tensor *outputs,
                                 int32_t threads, uint64_t seed, char **error);
NUMC_API void numc_tensor_release(numc_tensor *tensor);

/* Sets (or with NULL removes) the observer of the runs that start from now on. */
NUMC_API void numc_set_observer(numc_program *program, numc_observer observer, void *user);

/* One relocatable x86-64 ELF object without a container: load, look a defined symbol up, call a packed function
 * `void f(void **args)` under the runtime's thread pool and failure handling. */
NUMC_API numc_object *numc_load_object(const void *bytes, size_t size, char **error);
NUMC_API void *numc_object_symbol(const numc_object *object, const char *name);
NUMC_API int32_t numc_object_call(const numc_object *object, void *function, void **args, int32_t threads,
                                  char **error);
NUMC_API void numc_object_free(numc_object *object);

/* Memory: 64-byte aligned, kept for reuse after numc_free (up to 1 GiB); numc_alloc gives NULL when there is none.
 * numc_trim hands what is kept for reuse back to the system. */
NUMC_API void *numc_alloc(size_t size);
NUMC_API void numc_free(void *pointer);
NUMC_API void numc_trim(void);

/* Machine. Bit i of numc_cpu_features() is numc_feature_name(i) (NULL behind the last). numc_request_amx asks the
 * kernel for AMX tile data once per process and says whether this process may use it. */
NUMC_API uint64_t numc_cpu_features(void);
NUMC_API const char *numc_feature_name(int32_t bit);
NUMC_API int32_t numc_request_amx(void);
NUMC_API int32_t numc_default_threads(void);

/* What generated code calls. */
NUMC_API void numc_parallel(void (*task)(void *context, int64_t begin, int64_t end), void *context, int64_t n,
                            int64_t id);
NUMC_API void numc_contract(void (*task)(void *context, int64_t begin, int64_t end), const int64_t *description,
                            int64_t id);
/* The encoding of the largest magnitude of `rank` dimensions (sizes, then strides in elements); of the finite ones if
 * `finite`, else a NaN is larger than an infinity. 0 for none. */
NUMC_API int32_t numc_largest(const float *data, int64_t rank, const int64_t *sizes, int32_t finite);
/* Adds up what an operand holds: numbers by floor(log2(abs(x))) from -149 to 127, zeros, infinities, NaNs, finite numbers
 * beyond `largest`; 281 counts. Its elements are at all sums of one offset of each of three tables of `counts` offsets, null
 * for 0, 1, 2, ...; each counts once. Not 0 if memory is short. */
NUMC_API int32_t numc_count_values(const float *data, const int64_t *const *tables, const int64_t *counts, float largest,
                                   int64_t *out);
/* Binary32 FMAs in ascending order: `chains` sums of `depth` products each, from `start`. */
NUMC_API void numc_fp32_chains(const float *a, const float *b, const float *start, int64_t chains, int64_t depth, float *out);
/* Adds what a task counted, in words of `width` lanes (passes/kernels/datapaths/counting.py), to the 32 numbers of `counts`. */
NUMC_API void numc_count(int64_t *counts, const uint32_t *words, int64_t width);
NUMC_API void numc_fail(int32_t code) __attribute__((noreturn));
NUMC_API uint32_t numc_ftz_begin(void);
NUMC_API void numc_ftz_end(uint32_t saved);
NUMC_API int64_t numc_stream(int64_t operation);
/* Whether the run that calls this has an observer. */
NUMC_API int32_t numc_watched(void);
NUMC_API uint32_t numc_underflow_begin(void);
NUMC_API int32_t numc_underflow_end(uint32_t saved);

#ifdef __cplusplus
}
#endif
#endif
