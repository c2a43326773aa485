/* The numc runtime: loads program files, which hold machine code, weights and a description of both, and runs them.
 * It needs x86-64 Linux and pthread.
 *
 * Loading a program maps its machine code into this process, and running it executes that code: open only files that
 * you trust. All functions may be called from several threads at once, and one program may run in several threads at
 * once.
 *
 * Functions that can fail take `char **error`, which may be NULL. On failure *error is set to a text of one line, which
 * the caller releases with numc_string_free(). On success *error is left unchanged.
 *
 * NULL in place of a program, of another thing or of an array that is needed is an error, too: functions that cannot fail
 * do nothing, and return NULL or -1. What generated code calls, at the end, is not checked.
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
  NUMC_I1 = 2, /* one byte: 0 or 1 */
  NUMC_I8 = 3,
  NUMC_I16 = 4,
  NUMC_I32 = 5,
  NUMC_I64 = 6,
  NUMC_U8 = 7,
  NUMC_BF16 = 8, /* the upper half of a float32 */
  NUMC_F16 = 9,
  NUMC_F8E4M3FN = 10,
  NUMC_F8E5M2 = 11,
  NUMC_U16 = 12,
  NUMC_U32 = 13,
  NUMC_U64 = 14,
  NUMC_I4 = 15, /* this one and the next three: the low bits of one byte each, the others are 0 in outputs */
  NUMC_U4 = 16,
  NUMC_I2 = 17,
  NUMC_U2 = 18,
  NUMC_F8E4M3FNUZ = 19,
  NUMC_F8E5M2FNUZ = 20,
  NUMC_F8E8M0FNU = 21,
  NUMC_F4E2M1FN = 22 /* the low four bits of one byte */
} numc_dtype;

/* What numc_run and numc_object_call return. A positive value is the code that the program gave to numc_fail(). */
enum {
  NUMC_OK = 0,
  NUMC_BAD_INPUT = -1,
  NUMC_OUT_OF_MEMORY = -2,
  NUMC_BAD_FREE = -3,
  NUMC_CHECK_FAILED = -4 /* the environment variable NUMC_CHECK is 1, and the run did what it must not do */
};

/* A dense row-major tensor. Of an input, `data` is read during the run and `owner` is ignored. Outputs are filled in by
 * numc_run, and numc_tensor_release frees their memory. An output whose `owner` is NULL lies in the memory of an input;
 * only programs that were compiled to update inputs write into them. */
typedef struct numc_tensor {
  void *data;
  int32_t dtype; /* a numc_dtype */
  int32_t rank;
  int64_t dims[NUMC_MAX_RANK];
  void *owner;
} numc_tensor;

typedef struct numc_program numc_program;
typedef struct numc_object numc_object;

/* Called on the thread that called numc_run, before (phase 0) and after (phase 1) every parallel kernel that is not
 * inside of another one and whose id is not negative. `context` is what the tasks of the kernel read: for contractions
 * the structure TaskContext of passes/kernels/abi.py. */
typedef void (*numc_observer)(void *user, int64_t id, void *context, int32_t phase);

NUMC_API const char *numc_version(void);
NUMC_API void numc_string_free(char *text);

/* Loading a program; NULL on failure. numc_program_load reads a file, except for its weights, which are mapped and read
 * when they are first used: whoever makes the file shorter meanwhile ends this process with SIGBUS. If the environment
 * variable NUMC_COPY_WEIGHTS is 1, the weights are copied into memory, too. numc_program_load_memory uses `bytes` until
 * numc_program_free. numc_program_from_parts copies the abi section and the object code, and uses the weights, in the
 * order of the abi section, until numc_program_free; `path` is NULL or the file that its errors name. Weights that are
 * stored in the bytes of their number format are expanded while loading, into memory of the program. */
NUMC_API numc_program *numc_program_load(const char *path, char **error);
NUMC_API numc_program *numc_program_load_memory(const void *bytes, size_t size, char **error);
NUMC_API numc_program *numc_program_from_parts(const char *path, const void *abi, size_t abi_size, const void *code,
                                               size_t code_size, const void *const *weights, size_t weight_count,
                                               char **error);
NUMC_API void numc_program_free(numc_program *program);

/* Expands one weight that is stored in the bytes of its number format, as loading does. `storage` is its record in the
 * abi section, `count` the number of float32 numbers that it becomes. Returns NUMC_OK or NUMC_BAD_INPUT. */
NUMC_API int32_t numc_expand(const void *storage, size_t storage_size, const void *stored, size_t stored_size,
                             float *out, size_t count, char **error);

/* The inputs and outputs of a program. The caller of numc_run chooses the size of a dimension of -1. For an index out
 * of range the result is NULL or -1. */
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

/* Runs the program on an array of numc_input_count inputs, and fills in an array of numc_output_count outputs. Inputs of
 * another dtype or shape, and sizes that have one name in the model but differ, are errors that name the inputs. If
 * `threads` is 0 or less, the number of threads is that of the environment variable NUMC_NUM_THREADS, else the number
 * of processors that this process may use. Results do not depend on it. Large buffers may take the memory that the
 * environment variable NUMC_MEMORY names, in GiB, else that of the machine. Returns NUMC_OK; otherwise the outputs are
 * left unchanged. */
NUMC_API int32_t numc_run(numc_program *program, const numc_tensor *inputs, numc_tensor *outputs, int32_t threads,
                          char **error);
/* The same with a seed for stochastic rounding (:srN): equal seeds give equal bits, whatever ran before. numc_run takes
 * seed 0 and counts the runs of this program that were given no seed, so that each of them gets other random bits. */
NUMC_API int32_t numc_run_seeded(numc_program *program, const numc_tensor *inputs, numc_tensor *outputs,
                                 int32_t threads, uint64_t seed, char **error);

/* Formats with open widths, such as bfp(16,3,2..4) and e2..8m1..23, leave widths to every run. A program has one entry
 * for each operand in such a format: of which layer it is, which operand ("a", "b" or "product"), and which numbers of
 * exponent and of significand (or magnitude) bits are allowed. The texts live as long as the program. */
typedef struct numc_width_range {
  const char *layer, *operand;
  int32_t exponent_least, exponent_most, significand_least, significand_most;
} numc_width_range;

typedef struct numc_width {
  int32_t exponent, significand;
} numc_width;

NUMC_API int32_t numc_width_count(const numc_program *program);
/* Returns NUMC_OK, or NUMC_BAD_INPUT for an index out of range. */
NUMC_API int32_t numc_width_at(const numc_program *program, int32_t index, numc_width_range *range);

/* A choice of widths that the run itself makes, for an operand in a bfp format that is no weight in the program. Operands
 * with one number in `tensor` are one tensor: the first contraction that reads it decides for all of them. A number of -1
 * leaves the operand to `widths` of the options. The run sets `ratio` to r = sum |widest - narrowest| / sum |narrowest|
 * over all values of the operand in its widest and its narrowest format, and chooses the narrowest if r < epsilon, else
 * the widest; with a NaN as epsilon too. `decided` says whether it did so. */
typedef struct numc_choice {
  int32_t tensor;
  int32_t decided;
  double epsilon;
  double ratio;
  numc_width width;
} numc_choice;

/* What runs spend their time on, if their options name a profile. Every span belongs to a part of the program: a
 * contraction, a loop, a copy; its number is that of the part in the list "parts" of the program's manifest. The spans
 * of thread 0, which called numc_run, follow each other without gaps; those of part -1 lie between two parts: buffers
 * are allocated and freed, and sizes are computed. Spans of other threads say when they helped. A run begins with a
 * span of part NUMC_WHOLE_RUN, from its begin to its end, whose thread is the number of threads of the run. */
#define NUMC_WHOLE_RUN (-2)

typedef struct numc_span {
  int64_t begin, end; /* nanoseconds of CLOCK_MONOTONIC */
  int64_t waited;     /* thread 0: how many of them it waited for other threads */
  int64_t fmas;       /* thread 0: the multiply-adds that kernels of contractions computed */
  int64_t bytes;      /* thread 0: the bytes of operands and results, where the manifest has no number of them */
  int32_t part;
  int32_t thread; /* 0, or the number of a worker */
} numc_span;

typedef struct numc_profile numc_profile;

/* NULL if there is not enough memory. One run at a time may use a profile; its spans come after those of earlier runs,
 * and are valid until the next one. A run that fails leaves spans of what it did, and one for whose spans there is not
 * enough memory leaves none. */
NUMC_API numc_profile *numc_profile_new(void);
NUMC_API const numc_span *numc_profile_spans(const numc_profile *profile, size_t *count);
NUMC_API void numc_profile_free(numc_profile *profile);

/* What this processor can do with `threads` threads: fp32 operations of vector FMA instructions in a second, two for
 * each multiply-add, and bytes read from memory, or copied in it, in a second. It takes about a tenth of a second. */
NUMC_API int32_t numc_peaks(int32_t threads, double *flops, double *bytes, char **error);

/* What a run is told besides its inputs. A caller sets `size` to sizeof(numc_run_options) and what it does not use to 0.
 * profile: where the run records its spans, or NULL. threads: as for numc_run. seed: used if `seeded` is not 0. widths: an array of numc_width_count, or NULL for the widest
 * of every range. choices: as many, or NULL for none; a run that succeeds writes to it. */
typedef struct numc_run_options {
  size_t size;
  int32_t threads;
  int32_t seeded;
  uint64_t seed;
  const numc_width *widths;
  numc_choice *choices;
  numc_profile *profile;
} numc_run_options;

/* numc_run with options. Widths outside of their ranges are an error that names the layer. */
NUMC_API int32_t numc_run_with(numc_program *program, const numc_tensor *inputs, numc_tensor *outputs,
                               const numc_run_options *options, char **error);
/* Frees the memory of an output. */
NUMC_API void numc_tensor_release(numc_tensor *tensor);

/* For Python: these two functions are called with its global lock, and return a new object, or NULL with an exception.
 *
 * numc_memory_type makes the type of what owns the memory of results. header: object.__basicsize__.
 *
 * numc_caller makes a function that runs a program on arrays of numpy and tensors of torch as they are, without a copy.
 * The function lives no longer than the program. given: a tuple of the type ndarray; a type of numc_memory_type; bytes,
 * the letter of the module struct for the elements of every input; a tuple, the dtype of the arrays of every result; and
 * if torch is loaded its types Tensor and Parameter, the function Tensor.is_neg, a tuple, the dtype of the tensors of
 * every input that DLPack cannot tell from others of torch or None, and the address of the C exchange interface of
 * DLPack.
 * The function takes a tuple of the inputs; the address of a numc_run_options; whether the results are tensors even if
 * no input is one; and None, or bytes of which NUMC_MAX_RANK belong to each result: which of its dimensions is dimension
 * d of the tensor. It returns a list of the results, which own their memory; in place of one that updates an input this
 * input. If the run fails, it returns its code and a text. It returns None, and runs nothing, if an input is no ndarray
 * or tensor, or not dense, aligned, in memory and of the dtype and shape that the program wants, or if one that the
 * program updates cannot be written to or shares memory with another input. In arrays, types that numpy lacks are
 * integers with the bits of the values; in tensors, types that DLPack or torch may lack (int4, float8 and such) are
 * uint8. */
NUMC_API void *numc_memory_type(size_t header);
NUMC_API void *numc_caller(numc_program *program, void *given);

/* Sets the observer of all runs that start from now on; NULL removes it. */
NUMC_API void numc_set_observer(numc_program *program, numc_observer observer, void *user);

/* One relocatable x86-64 ELF object without a container: loading it, finding a symbol that it defines (NULL if there is
 * none), and calling a function `void f(void **args)` of it as a run, with the thread pool and the handling of failures
 * that programs have. */
NUMC_API numc_object *numc_load_object(const void *bytes, size_t size, char **error);
NUMC_API void *numc_object_symbol(const numc_object *object, const char *name);
NUMC_API int32_t numc_object_call(const numc_object *object, void *function, void **args, int32_t threads,
                                  char **error);
NUMC_API void numc_object_free(numc_object *object);

/* Memory aligned to 64 bytes. After numc_free the runtime keeps it for reuse, up to 1 GiB. numc_alloc returns NULL if
 * there is not enough. numc_trim gives the memory that is kept back to the system. */
NUMC_API void *numc_alloc(size_t size);
NUMC_API void numc_free(void *pointer);
NUMC_API void numc_trim(void);

/* The processor. Bit i of numc_cpu_features() stands for the feature numc_feature_name(i), which is NULL behind the
 * last one. numc_request_amx asks the operating system once for the use of AMX tiles, and returns whether this process
 * may use them. numc_default_threads is the number of threads of a run that is not given one. */
NUMC_API uint64_t numc_cpu_features(void);
NUMC_API const char *numc_feature_name(int32_t bit);
NUMC_API int32_t numc_request_amx(void);
NUMC_API int32_t numc_default_threads(void);

/* Draws `n` elements that are 1 with probability p and else 0, as bernoulli_() of torch does it on processors other than
 * Intel's. `state`: what torch.get_rng_state() returns, which becomes the state after it. `dtype`: of the
 * elements, NUMC_F32 or NUMC_I1. Returns NUMC_BAD_INPUT for another one, and for a state or a probability that is none. */
NUMC_API int32_t numc_bernoulli(void *state, double p, int32_t dtype, void *out, int64_t n);

/* The functions below are for generated code and for the compiler. */

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

#ifdef __cplusplus
}
#endif
#endif
