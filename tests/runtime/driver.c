/* Loads every program file that is given, and runs each at several numbers of threads from two threads at once: for
 * builds with sanitizers. Every other four runs have a profile, without which chains run side by side. A file whose
 * name begins with "damaged" is loaded only. Inputs are zeros, and free sizes 3. Prints a line for each file. */
#define _GNU_SOURCE
#include <numc.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t kItem[] = {4, 8, 1, 1, 2, 4, 8, 1};

static int run_once(numc_program *program, int threads, int profiled) {
  const int count = numc_input_count(program), results = numc_output_count(program);
  numc_tensor *inputs = calloc((size_t)count + 1, sizeof *inputs), *outputs = calloc((size_t)results + 1, sizeof *outputs);
  for (int i = 0; i < count; ++i) {
    size_t bytes = kItem[numc_input_dtype(program, i)];
    inputs[i].dtype = numc_input_dtype(program, i);
    inputs[i].rank = numc_input_rank(program, i);
    for (int d = 0; d < inputs[i].rank; ++d) {
      inputs[i].dims[d] = numc_input_dims(program, i)[d] < 0 ? 3 : numc_input_dims(program, i)[d];
      bytes *= (size_t)inputs[i].dims[d];
    }
    inputs[i].data = calloc(bytes + 1, 1);
  }
  char *error = NULL;
  numc_profile *profile = profiled ? numc_profile_new() : NULL;
  const numc_run_options options = {.size = sizeof options, .threads = threads, .profile = profile};
  int code = numc_run_with(program, inputs, outputs, &options, &error);
  size_t spans;
  if (profile != NULL && numc_profile_spans(profile, &spans)->part != NUMC_WHOLE_RUN) code = 1;
  numc_profile_free(profile);
  for (int i = 0; i < results && code == NUMC_OK; ++i) numc_tensor_release(&outputs[i]);
  for (int i = 0; i < count; ++i) free(inputs[i].data);
  numc_string_free(error);
  free(inputs);
  free(outputs);
  return code;
}

static void *runs(void *program) {
  static const int kThreads[] = {1, 2, 3, 5};
  long failed = 0;
  for (int i = 0; i < 24; ++i) failed += run_once(program, kThreads[i % 4], i / 4 % 2) != NUMC_OK;
  return (void *)failed;
}

int main(int count, char **paths) {
  for (int i = 1; i < count; ++i) {
    char *error = NULL;
    const char *const slash = strrchr(paths[i], '/'), *const name = slash != NULL ? slash + 1 : paths[i];
    numc_program *program = numc_program_load(paths[i], &error);
    if (program == NULL) {
      printf("%s: refused\n", name);
      numc_string_free(error);
      continue;
    }
    long failed = 0;
    if (strncmp(name, "damaged", 7) != 0) {
      pthread_t other;
      void *failed_there = NULL;
      const int started = pthread_create(&other, NULL, runs, program) == 0;
      failed = (long)runs(program);
      if (started) pthread_join(other, &failed_there);
      failed += (long)failed_there;
    }
    printf("%s: loaded, %ld runs failed\n", name, failed);
    numc_program_free(program);
  }
  numc_trim();
  return 0;
}
