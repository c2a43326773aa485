// Compiled without exceptions: pthread_exit then calls the handler before it unwinds a frame that is not C.
#include "execution/thread_exit.hpp"

#include <pthread.h>
#include <unistd.h>

namespace numc {
namespace {

void wait_for_ever(void *) {
  for (;;) pause();
}

}  // namespace

void call_to_the_end(void (*function)(void *), void *argument) noexcept {
  pthread_cleanup_push(wait_for_ever, nullptr);
  function(argument);
  pthread_cleanup_pop(0);
}

}  // namespace numc
