/* Loads the objects that are given, which are loaded.c, calls them twice each, and says "ok" or what is wrong. Then an
 * object with a relocation that is unknown, and one for another machine, made of the first one. */
#include <numc/host.h>

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed;

static void check(const char *what, long got, long want) {
  if (got != want) failed = printf("%s: got %ld, want %ld\n", what, got, want);
}

static void check_text(const char *got, const char *want) {
  if (got == NULL || strcmp(got, want) != 0) failed = printf("got '%s', want '%s'\n", got ? got : "(nothing)", want);
}

static void run(const numc_object *object) {
  void *const function = numc_object_symbol(object, "run");
  for (int round = 1; round <= 2; ++round) {
    int out[14] = {2};
    float x[2] = {1.75f, -0.5f};
    void *arguments[2] = {out, x};
    char *error = NULL;
    check("the call", numc_object_call(object, function, arguments, 1, &error), NUMC_OK);
    const int want[14] = {30, 105 + round, 60 + round - 1, round, 0, 4 + 10 + 300 + 2000,
                          0,  11 + round,  (105 + round) * 3, 41, 200, -7, 20 * round, 7};
    for (int n = 0; n < 14; ++n) check("a result", out[n], want[n]);
    check("a float", x[0] == 0.0f && x[1] == 0.0f, 1);
  }
}

static char *load(unsigned char *bytes, size_t size, numc_object **object) {
  char *error = NULL;
  *object = numc_load_object(bytes, size, &error);
  return error;
}

/* The first relocation of the code gets another type. */
static void damage(unsigned char *bytes, unsigned type) {
  const Elf64_Ehdr *const head = (void *)bytes;
  const Elf64_Shdr *const sections = (void *)(bytes + head->e_shoff);
  for (int i = 0; i < head->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_RELA || !(sections[sections[i].sh_info].sh_flags & SHF_EXECINSTR)) continue;
    Elf64_Rela *const entry = (void *)(bytes + sections[i].sh_offset);
    entry->r_info = ELF64_R_INFO(ELF64_R_SYM(entry->r_info), type);
    return;
  }
}

int main(int count, char **paths) {
  static unsigned char bytes[1 << 20] __attribute__((aligned(16)));
  size_t size = 0;
  numc_object *object;
  for (int i = 1; i < count; ++i) {
    FILE *const file = fopen(paths[i], "rb");
    size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    char *const error = load(bytes, size, &object);
    if (object == NULL) {
      failed = printf("%s: %s\n", paths[i], error);
      continue;
    }
    run(object);
    numc_object_free(object);
  }
  damage(bytes, 1023);
  check_text(load(bytes, size, &object), "object code: relocation type 1023 is not supported");
  ((Elf64_Ehdr *)bytes)->e_machine = EM_X86_64;
  check_text(load(bytes, size, &object), "object code: not for aarch64 (machine 62)");
  if (!failed) printf("ok\n");
  return 0;
}
