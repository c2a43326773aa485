/* Runs programs on given inputs: for tests on a machine of another architecture, where Python is not.
 *
 * batch THREADS PROGRAM...: reads PROGRAM.in, which has a record for each input, and again for each further run, and
 * writes PROGRAM.out, with one for each output: i32 dtype, i32 rank, i64 size of each dimension, then the elements. Prints
 * a line for each program: "ok", the text of its error, or "code N" for the code that it ended with. All seeds are 7. */
#include <numc.h>

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 256 };

static const size_t kItem[] = {4, 8, 1, 1, 2, 4, 8, 1, 2, 2, 1, 1, 2, 4, 8, 1, 1, 1, 1, 1, 1, 1, 1};

static size_t bytes_of(const numc_tensor *tensor) {
  size_t bytes = kItem[tensor->dtype];
  for (int d = 0; d < tensor->rank; ++d) bytes *= (size_t)tensor->dims[d];
  return bytes;
}

static int stop(const char *what) {
  fprintf(stderr, "batch: %s\n", what);
  exit(2);
}

static FILE *opened(const char *program, const char *suffix, const char *mode) {
  char path[4096];
  snprintf(path, sizeof path, "%s%s", program, suffix);
  FILE *const file = fopen(path, mode);
  if (file == NULL) stop(path);
  return file;
}

/* Whether there were inputs of another run. */
static int read_inputs(FILE *file, numc_tensor *inputs, int count) {
  for (int i = 0; i < count; ++i) {
    numc_tensor *const t = inputs + i;
    if (fread(&t->dtype, 4, 1, file) != 1) {
      if (i == 0) return 0;
      stop("inputs end early");
    }
    if (fread(&t->rank, 4, 1, file) != 1 || t->rank > NUMC_MAX_RANK ||
        fread(t->dims, 8, (size_t)t->rank, file) != (size_t)t->rank)
      stop("inputs end early");
    const size_t bytes = bytes_of(t);
    t->data = malloc(bytes + 1);
    if (t->data == NULL || fread(t->data, 1, bytes, file) != bytes) stop("inputs end early");
  }
  return 1;
}

static void write_outputs(FILE *file, numc_tensor *outputs, int count) {
  for (int i = 0; i < count; ++i) {
    numc_tensor *const t = outputs + i;
    fwrite(&t->dtype, 4, 1, file);
    fwrite(&t->rank, 4, 1, file);
    fwrite(t->dims, 8, (size_t)t->rank, file);
    fwrite(t->data, 1, bytes_of(t), file);
    numc_tensor_release(t);
  }
}

static int run(numc_program *program, FILE *in, FILE *out, int threads, char **error) {
  numc_tensor inputs[MOST] = {{0}}, outputs[MOST] = {{0}};
  const int count = numc_input_count(program);
  int code = NUMC_OK;
  while (code == NUMC_OK && read_inputs(in, inputs, count)) {
    code = numc_run_seeded(program, inputs, outputs, threads, 7, error);
    if (code == NUMC_OK) write_outputs(out, outputs, numc_output_count(program));
    for (int i = 0; i < count; ++i) free(inputs[i].data);
    if (count == 0) break;
  }
  return code;
}

static void test(const char *path, int threads) {
  char *error = NULL;
  numc_program *const program = numc_program_load(path, &error);
  if (program == NULL) {
    printf("%s\n", error);
    numc_string_free(error);
    return;
  }
  if (numc_input_count(program) > MOST || numc_output_count(program) > MOST) stop("more than 256 inputs or outputs");
  FILE *const in = opened(path, ".in", "rb"), *const out = opened(path, ".out", "wb");
  const int code = run(program, in, out, threads, &error);
  fclose(in);
  fclose(out);
  if (code > 0)
    printf("code %d\n", code);
  else
    printf("%s\n", code == NUMC_OK ? "ok" : error);
  numc_string_free(error);
  numc_program_free(program);
}

int main(int count, char **arguments) {
  if (count < 3) stop("usage: batch THREADS PROGRAM...");
  for (int i = 2; i < count; ++i) test(arguments[i], atoi(arguments[1]));
  return 0;
}
