/* The numc runtime: loads program files, which hold machine code, weights and a description of both, and runs them.
 * It needs Linux, on x86-64 or AArch64, and pthread.
 *
 * Loading a program maps its machine code into this process, and running it executes that code: open only files that
 * you trust. All functions may be called from several threads at once, and one program may run in several threads at
 * once.
 *
 * Functions that can fail take `char **error`, which may be NULL. On failure *error is set to a text of one line, which
 * the caller releases with numc_string_free(). On success *error is left unchanged.
 *
 * NULL in place of a program, of another thing or of an array that is needed is an error, too: functions that cannot fail
 * do nothing, and return NULL or -1.
 *
 * numc.hpp has the same for C++. What bindings of a language need besides is in numc/host.h, and what generated code
 * calls in numc/generated.h; both belong to one version of numc.
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

/* What numc_run returns. A positive value is the code that the program gave to numc_fail(). */
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

NUMC_API const char *numc_version(void);
NUMC_API void numc_string_free(char *text);

/* Loading a program; NULL on failure. numc_program_load reads a file, except for its weights, which are mapped and read
 * when they are first used: whoever makes the file shorter meanwhile ends this process with SIGBUS. If the environment
 * variable NUMC_COPY_WEIGHTS is 1, the weights are copied into memory, too. numc_program_load_memory uses `bytes` until
 * numc_program_free. Weights that are
 * stored in the bytes of their number format are expanded while loading, into memory of the program. */
NUMC_API numc_program *numc_program_load(const char *path, char **error);
/* The same of a file that is signed (numc compile --sign), by the public key in a PEM file: a copy of the file is verified,
 * and loaded. It needs libcrypto of OpenSSL on the machine. */
NUMC_API numc_program *numc_program_load_signed(const char *path, const char *public_key, char **error);
NUMC_API numc_program *numc_program_load_memory(const void *bytes, size_t size, char **error);
/* Does nothing for the program of a shared object that `numc export` made. */
NUMC_API void numc_program_free(numc_program *program);

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
 * with one number in `tensor` are one tensor: the first contraction that reads it decides for all of them, of a layer
 * the forward pass before dgrad, and dgrad before wgrad. A number of -1 leaves the operand to `widths` of the options.
 * The run sets `ratio` to r = sum |widest - narrowest| / sum |narrowest|
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

/* Gives the memory that the runtime keeps for later runs, up to 1 GiB, back to the system. */
NUMC_API void numc_trim(void);

/* The processor. Bit i of numc_cpu_features() stands for the feature numc_feature_name(i), which is NULL behind the
 * last one. numc_default_threads is
 * the number of threads of a run that is not given one. */
NUMC_API uint64_t numc_cpu_features(void);
NUMC_API const char *numc_feature_name(int32_t bit);
NUMC_API int32_t numc_default_threads(void);

#ifdef __cplusplus
}
#endif
#endif
