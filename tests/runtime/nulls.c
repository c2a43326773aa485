/* Calls every function of numc.h that users call with NULL for each of its pointers; the argument is a program file.
 * Prints what is wrong, and the number of calls. */
#include <numc.h>
#include <numc/host.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int calls, wrong;

static void check(int good, const char *what) {
  ++calls;
  if (good) return;
  ++wrong;
  printf("%s\n", what);
}

/* The text of an error has to name what is NULL. */
static void refused(int good, char *error, const char *name) {
  check(good && error != NULL && strncmp(error, name, strlen(name)) == 0, error != NULL ? error : name);
  numc_string_free(error);
}

#define REFUSED(failed, name, ...)                  \
  do {                                              \
    char *error = NULL, **const at = &error;        \
    const int is_failed = (__VA_ARGS__) == (failed); \
    refused(is_failed, error, name);                \
  } while (0)

static void without_a_program(void) {
  numc_tensor tensor = {0};
  const numc_run_options options = {.size = sizeof options};
  numc_width_range range;
  check(numc_input_count(NULL) == -1 && numc_output_count(NULL) == -1 && numc_width_count(NULL) == -1, "counts");
  check(numc_input_name(NULL, 0) == NULL && numc_output_name(NULL, 0) == NULL, "names");
  check(numc_input_dtype(NULL, 0) == -1 && numc_output_dtype(NULL, 0) == -1, "dtypes");
  check(numc_input_rank(NULL, 0) == -1 && numc_output_rank(NULL, 0) == -1, "ranks");
  check(numc_input_dims(NULL, 0) == NULL && numc_output_dims(NULL, 0) == NULL, "dims");
  check(numc_width_at(NULL, 0, &range) == NUMC_BAD_INPUT, "width_at");
  REFUSED(NUMC_BAD_INPUT, "program is NULL", numc_run(NULL, &tensor, &tensor, 1, at));
  REFUSED(NUMC_BAD_INPUT, "program is NULL", numc_run_seeded(NULL, &tensor, &tensor, 1, 0, at));
  REFUSED(NUMC_BAD_INPUT, "program is NULL", numc_run_with(NULL, &tensor, &tensor, &options, at));
  check(numc_run(NULL, NULL, NULL, 1, NULL) == NUMC_BAD_INPUT, "run of nothing");
  numc_set_observer(NULL, NULL, NULL);
  numc_program_free(NULL);
  numc_string_free(NULL);
  numc_tensor_release(NULL);
  numc_free(NULL);
}

static void loading(void) {
  const char byte = 0;
  float value;
  REFUSED(NULL, "path is NULL", numc_program_load(NULL, at));
  REFUSED(NULL, "path is NULL", numc_program_load_signed(NULL, "key.pem", at));
  REFUSED(NULL, "bytes is NULL", numc_program_load_memory(NULL, 100, at));
  REFUSED(NULL, "abi is NULL", numc_program_from_parts(NULL, NULL, 1, &byte, 1, NULL, 0, at));
  REFUSED(NULL, "code is NULL", numc_program_from_parts(NULL, &byte, 1, NULL, 1, NULL, 0, at));
  REFUSED(NULL, "weights is NULL", numc_program_from_parts(NULL, &byte, 1, &byte, 1, NULL, 1, at));
  check(numc_program_load(NULL, NULL) == NULL, "load without an error");
  REFUSED(NUMC_BAD_INPUT, "storage is NULL", numc_expand(NULL, 1, &byte, 1, &value, 1, at));
  REFUSED(NUMC_BAD_INPUT, "stored is NULL", numc_expand(&byte, 1, NULL, 1, &value, 1, at));
  REFUSED(NUMC_BAD_INPUT, "out is NULL", numc_expand(&byte, 1, &byte, 1, NULL, 1, at));
}

static void of_a_program(numc_program *program) {
  numc_tensor *inputs = calloc((size_t)numc_input_count(program), sizeof *inputs), *outputs = calloc(9, sizeof *outputs);
  REFUSED(NUMC_BAD_INPUT, "inputs is NULL", numc_run(program, NULL, outputs, 1, at));
  REFUSED(NUMC_BAD_INPUT, "outputs is NULL", numc_run(program, inputs, NULL, 1, at));
  REFUSED(NUMC_BAD_INPUT, "options is NULL", numc_run_with(program, inputs, outputs, NULL, at));
  REFUSED(NUMC_BAD_INPUT, "input", numc_run(program, inputs, outputs, 1, at)); /* without data and shape */
  check(numc_run(program, inputs, outputs, 1, NULL) == NUMC_BAD_INPUT, "run without an error");
  check(numc_width_at(program, 0, NULL) == NUMC_BAD_INPUT, "width_at NULL");
  free(inputs);
  free(outputs);
}

static void others(void) {
  size_t count = 7;
  uint8_t out;
  char state[8000] = {0};
  numc_profile *profile = numc_profile_new();
  check(numc_profile_spans(NULL, &count) == NULL && count == 0, "spans");
  numc_profile_spans(profile, NULL);
  numc_profile_free(profile);
  numc_profile_free(NULL);
  check(numc_peaks(1, NULL, NULL, NULL) == NUMC_OK, "peaks");
  REFUSED(NULL, "bytes is NULL", numc_load_object(NULL, 100, at));
  check(numc_object_symbol(NULL, "f") == NULL, "symbol");
  REFUSED(NUMC_BAD_INPUT, "function is NULL", numc_object_call(NULL, NULL, NULL, 1, at));
  numc_object_free(NULL);
  check(numc_bernoulli(NULL, 0.5, NUMC_I1, &out, 1) == NUMC_BAD_INPUT, "bernoulli: state");
  check(numc_bernoulli(state, 0.5, NUMC_I1, NULL, 1) == NUMC_BAD_INPUT, "bernoulli: out");
}

int main(int count, char **paths) {
  if (count != 2) return 2;
  numc_program *program = numc_program_load(paths[1], NULL);
  without_a_program();
  loading();
  of_a_program(program);
  others();
  numc_program_free(program);
  printf("%d calls, %d wrong\n", calls, wrong);
  return wrong != 0;
}
