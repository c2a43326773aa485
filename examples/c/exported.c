/* Calls a network that `numc export` made a shared object of, on an input of ones:
 *   numc compile examples/digits/mlp.onnx --fma bf16_1_1 -o mlp.numc && numc export mlp.numc --shared out/libmlp.so
 *   cc examples/c/exported.c -Iout -Lout -lmlp -lnumc_runtime -Wl,-rpath,out -o exported && ./exported
 */
#include <mlp.h>
#include <stdio.h>

int main(void) {
  float x[64];
  for (int i = 0; i < 64; ++i) x[i] = 1.0f;
  numc_tensor inputs[MLP_INPUTS] = {mlp_x(x, 1)}, outputs[MLP_OUTPUTS];
  char *error = NULL;
  if (mlp_run(inputs, outputs, 0, &error) != NUMC_OK) {
    fprintf(stderr, "exported: %s\n", error);
    numc_string_free(error);
    return 2;
  }
  const float *logits = outputs[MLP_OUTPUT_LOGITS].data;
  for (int k = 0; k < 10; ++k) printf("%a\n", logits[k]);
  numc_tensor_release(&outputs[MLP_OUTPUT_LOGITS]);
  return 0;
}
