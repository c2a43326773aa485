/* An object with the relocations that compilers write for AArch64: calls far away, the global offset table, pages and
 * offsets of loads and stores of every size, addresses in data, tables of jumps. */
void *memcpy(void *, const void *, unsigned long);
float floorf(float);
float (*const indirect)(float) = floorf;
static const int table[4] = {10, 20, 30, 40};
static volatile unsigned char bytes[5] = {1, 2, 3, 4, 5};
static volatile unsigned short halves[5] = {6, 7, 8, 9, 10};
static volatile int counter = 5;
static volatile long longs[3] = {100, 200, 300};
static volatile __int128 wide[2] = {1000, 2000};
static int zeros[1000];
int common;
static const int *pointers[2] = {&table[1], &table[3]};
__attribute__((constructor)) static void first(void) { counter += 100; }
__attribute__((weak)) void nowhere(void);
__attribute__((noinline)) static int chosen(int n) {
  switch (n) {
    case 0: return zeros[3];
    case 1: return 11 + common;
    case 2: return counter * 3;
    case 3: return table[n] + 1;
    case 4: return (int)longs[1];
    case 5: return -7;
    case 6: return table[1] * common;
    default: return n;
  }
}
void run(void **args) {
  int *out = args[0];
  float *x = args[1];
  out[0] = table[out[0]];
  out[1] = ++counter;
  out[2] = *pointers[0] + *pointers[1] + zeros[999]++;
  out[3] = ++common;
  out[4] = nowhere != 0;
  out[5] = bytes[3] + halves[4] + (int)longs[2] + (int)wide[1];
  bytes[1] = 9, halves[1] = 9, longs[0] = 9, wide[0] = 9;
  for (int n = 0; n < 8; ++n) out[6 + n] = chosen(n);
  x[0] = floorf(x[0]) + indirect(x[1]);
  memcpy(x + 1, x, 4);
}
void fails(void **args) { ((int *)args[0])[1 << 20] = 1; }
