/* What bindings of numc.h to a language need besides, such as those of the Python package: programs in parts, objects
 * without a container, observers, and memory. It belongs to one version of numc. numc.h says how errors are told.
 */
#ifndef NUMC_HOST_H
#define NUMC_HOST_H

#include <numc.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct numc_object numc_object;

/* Called on the thread that called numc_run, before (phase 0) and after (phase 1) every parallel kernel that is not
 * inside of another one and whose id is not negative. `context` is what the tasks of the kernel read: for contractions
 * the structure TaskContext of passes/kernels/abi.py. */
typedef void (*numc_observer)(void *user, int64_t id, void *context, int32_t phase);

/* A program of its parts: copies the abi section and the object code, and uses the weights, in the order of the abi
 * section, until numc_program_free. `path` is NULL or the file that its errors name. */
NUMC_API numc_program *numc_program_from_parts(const char *path, const void *abi, size_t abi_size, const void *code,
                                               size_t code_size, const void *const *weights, size_t weight_count,
                                               char **error);

/* Expands one weight that is stored in the bytes of its number format, as loading does. `storage` is its record in the
 * abi section, `count` the number of float32 numbers that it becomes. Returns NUMC_OK or NUMC_BAD_INPUT. */
NUMC_API int32_t numc_expand(const void *storage, size_t storage_size, const void *stored, size_t stored_size,
                             float *out, size_t count, char **error);

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

/* One relocatable ELF object of this machine without a container: loading it, finding a symbol that it defines (NULL if
 * there is none), and calling a function `void f(void **args)` of it as a run, with the thread pool and the handling of
 * failures that programs have. */
NUMC_API numc_object *numc_load_object(const void *bytes, size_t size, char **error);
NUMC_API void *numc_object_symbol(const numc_object *object, const char *name);
NUMC_API int32_t numc_object_call(const numc_object *object, void *function, void **args, int32_t threads,
                                  char **error);
NUMC_API void numc_object_free(numc_object *object);

/* Memory aligned to 64 bytes. After numc_free the runtime keeps it for reuse, up to 1 GiB. numc_alloc returns NULL if
 * there is not enough. */
NUMC_API void *numc_alloc(size_t size);
NUMC_API void numc_free(void *pointer);

/* Asks the operating system once for the use of AMX tiles, and returns whether this process may use them. */
NUMC_API int32_t numc_request_amx(void);

/* Draws `n` elements that are 1 with probability p and else 0, as bernoulli_() of torch does it on processors other than
 * Intel's. `state`: what torch.get_rng_state() returns, which becomes the state after it. `dtype`: of the
 * elements, NUMC_F32 or NUMC_I1. Returns NUMC_BAD_INPUT for another one, and for a state or a probability that is none. */
NUMC_API int32_t numc_bernoulli(void *state, double p, int32_t dtype, void *out, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
