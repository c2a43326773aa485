/* A checked run (NUMC_CHECK=1) whose object, loaded.c, writes where nothing is: the run ends, and says so. */
#include <numc/host.h>

#include <stdio.h>
#include <string.h>

int main(int count, char **paths) {
  static unsigned char bytes[1 << 20];
  FILE *const file = fopen(paths[count - 1], "rb");
  const size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  char *error = NULL;
  numc_object *const object = numc_load_object(bytes, size, &error);
  void *const buffer = numc_alloc(64);
  void *arguments[1] = {buffer};
  const int code = object == NULL ? 1 : numc_object_call(object, numc_object_symbol(object, "fails"), arguments, 1, &error);
  printf("%d %s\n", code, error);
  return 0;
}
