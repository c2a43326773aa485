/* Loads and runs program files while one allocation after the other fails: the first, the second, ... until none is
 * left to fail. Every failure has to be an error of the load or of the run, and afterwards no memory is in use that was
 * not before. Prints for each file how many allocations there are. */
#define _GNU_SOURCE
#include <numc.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

static atomic_long countdown; /* the allocation that fails; 0: none */
static atomic_long in_use;    /* allocations that were not freed */

static int fails(void) {
  long left = atomic_load(&countdown);
  while (left > 0)
    if (atomic_compare_exchange_weak(&countdown, &left, left - 1)) return left == 1;
  return 0;
}

static void *counted(void *memory) {
  if (memory != NULL) atomic_fetch_add(&in_use, 1);
  return memory;
}

void *malloc(size_t size) { return fails() ? NULL : counted(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) { return fails() ? NULL : counted(__libc_calloc(count, size)); }
void *aligned_alloc(size_t alignment, size_t size) {
  return fails() ? NULL : counted(__libc_memalign(alignment, size));
}

void *realloc(void *old, size_t size) {
  if (fails()) return NULL;
  void *memory = __libc_realloc(old, size);
  if (old == NULL) counted(memory);
  return memory;
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
  *memory = aligned_alloc(alignment, size);
  return *memory == NULL ? ENOMEM : 0;
}

void free(void *memory) {
  if (memory != NULL) atomic_fetch_sub(&in_use, 1);
  __libc_free(memory);
}

void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset) {
  if (fails()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return (void *)syscall(SYS_mmap, at, size, protection, flags, file, offset);
}

static float numbers[1024];

/* Returns the error, which may be NULL if there was no memory for its text; *failed says whether there is one. */
static char *load_and_run(const char *path, int *failed) {
  char *error = NULL;
  numc_tensor inputs[4] = {{0}}, outputs[8] = {{0}};
  numc_program *program = numc_program_load(path, &error);
  *failed = program == NULL;
  if (program == NULL) return error;
  for (int i = 0; i < numc_input_count(program); ++i) {
    inputs[i].data = numbers;
    inputs[i].dtype = numc_input_dtype(program, i);
    inputs[i].rank = numc_input_rank(program, i);
    for (int d = 0; d < inputs[i].rank; ++d)
      inputs[i].dims[d] = numc_input_dims(program, i)[d] < 0 ? 3 : numc_input_dims(program, i)[d];
  }
  *failed = numc_run(program, inputs, outputs, 1, &error) != NUMC_OK;
  for (int i = 0; i < numc_output_count(program) && !*failed; ++i) numc_tensor_release(&outputs[i]);
  numc_program_free(program);
  return error;
}

int main(int count, char **paths) {
  for (int i = 1; i < count; ++i) {
    int failed = 0;
    numc_string_free(load_and_run(paths[i], &failed)); /* tables that are made once */
    numc_trim();
    long n = 0;
    do {
      const long before = atomic_load(&in_use);
      atomic_store(&countdown, ++n);
      char *error = load_and_run(paths[i], &failed);
      const int reached = atomic_exchange(&countdown, 0) == 0;
      if (reached && failed && error != NULL && strstr(error, "memory") == NULL) {
        printf("%s: allocation %ld: %s\n", paths[i], n, error);
        return 1;
      }
      if (!reached && failed) {
        printf("%s: failed without a reason: %s\n", paths[i], error);
        return 1;
      }
      numc_string_free(error);
      numc_trim();
      if (atomic_load(&in_use) != before) {
        printf("%s: allocation %ld: %ld allocations are not freed\n", paths[i], n, atomic_load(&in_use) - before);
        return 1;
      }
      if (!reached) break;
    } while (n < 100000);
    const char *const slash = strrchr(paths[i], '/');
    printf("%s: %ld allocations\n", slash + 1, n - 1);
  }
  return 0;
}
