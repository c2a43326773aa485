/* Runs a program file on inputs of ones and prints the outputs. Build it against the installed Python package:
 *   cc run.c $(numc paths cflags libs) -o run && ./run model.numc
 */
#include <numc.h>
#include <stdio.h>
#include <stdlib.h>

static void die(char *error) {
  fprintf(stderr, "run: %s\n", error);
  exit(2);
}

int main(int argc, char **argv) {
  char *error = NULL;
  numc_program *program = argc == 2 ? numc_program_load(argv[1], &error) : NULL;
  if (program == NULL) die(error != NULL ? error : "usage: run PROGRAM");

  numc_tensor inputs[16] = {0}, outputs[16];
  if (numc_input_count(program) > 16 || numc_output_count(program) > 16) die("more than 16 inputs or outputs");
  for (int i = 0; i < numc_input_count(program); ++i) {
    int64_t count = 1;
    inputs[i].dtype = numc_input_dtype(program, i);
    inputs[i].rank = numc_input_rank(program, i);
    for (int d = 0; d < inputs[i].rank; ++d) {
      int64_t dim = numc_input_dims(program, i)[d];
      count *= inputs[i].dims[d] = dim < 0 ? 2 : dim; /* the caller chooses the size of this dimension */
    }
    if (inputs[i].dtype != NUMC_F32) die("this example fills float32 inputs only");
    float *data = inputs[i].data = malloc(sizeof(float) * (size_t)count);
    while (count-- > 0) *data++ = 1.0f;
  }
  if (numc_run(program, inputs, outputs, 0, &error) != NUMC_OK) die(error);

  for (int i = 0; i < numc_output_count(program); ++i) {
    int64_t count = 1;
    for (int d = 0; d < outputs[i].rank; ++d) count *= outputs[i].dims[d];
    printf("%s:", numc_output_name(program, i));
    for (int64_t k = 0; k < count && outputs[i].dtype == NUMC_F32; ++k) printf(" %g", ((float *)outputs[i].data)[k]);
    printf("\n");
    numc_tensor_release(&outputs[i]);
  }
  for (int i = 0; i < numc_input_count(program); ++i) free(inputs[i].data);
  numc_program_free(program);
  return 0;
}
