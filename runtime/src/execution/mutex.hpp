// A mutex that a fork leaves free and what it guards whole, whatever other threads were doing.
#pragma once

#include <mutex>

namespace numc {

// One that lives as long as the process is allocated and never freed, since threads outlive static objects.
class Mutex {
 public:
  Mutex();
  ~Mutex();
  Mutex(const Mutex &) = delete;
  Mutex &operator=(const Mutex &) = delete;
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  friend class Forks;
  std::mutex mutex_;
  Mutex *previous_ = nullptr, *next_ = nullptr;  // of all mutexes
};

using Lock = std::lock_guard<Mutex>;

}  // namespace numc
