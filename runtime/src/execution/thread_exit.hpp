// Calls that may end their thread.
#pragma once

namespace numc {

// Calls function(argument). If that ends the thread by pthread_exit, the thread waits for the end of the process instead:
// Python does so at its exit to every thread that asks for its global lock, and the frames of C++ above must not be
// unwound, since what they would release is Python's.
void call_to_the_end(void (*function)(void *argument), void *argument) noexcept;

}  // namespace numc
