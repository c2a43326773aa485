/* Loaded before the C library (LD_PRELOAD): one write or fsync of the process goes wrong, the one that numc_test_arm
 * names. Once armed, a "short" one writes half, an "interrupted" one nothing with EINTR, and from a "full" or "broken"
 * one on every one fails with ENOSPC or EIO. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static int kind;
static long countdown; /* calls until it happens; 0: never */

void numc_test_arm(int what, long call) {
  kind = what;
  countdown = call;
}

long numc_test_left(void) { return countdown; }

/* Whether this call goes wrong. */
static int now(void) { return countdown > 0 && --countdown == 0; }

ssize_t write(int file, const void *bytes, size_t size) {
  if (file > 2 && now()) {
    if (kind == 'i') {
      errno = EINTR;
      return -1;
    }
    if (kind == 's' && size > 1) return syscall(SYS_write, file, bytes, size / 2);
    if (kind == 'f' || kind == 'b') {
      countdown = 1;
      errno = kind == 'f' ? ENOSPC : EIO;
      return -1;
    }
  }
  return syscall(SYS_write, file, bytes, size);
}

int fsync(int file) {
  if (now()) {
    if (kind == 'i') {
      errno = EINTR;
      return -1;
    }
    if (kind == 'f' || kind == 'b') {
      countdown = 1;
      errno = kind == 'f' ? ENOSPC : EIO;
      return -1;
    }
  }
  return (int)syscall(SYS_fsync, file);
}
