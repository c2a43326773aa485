#include "execution/mutex.hpp"

#include <pthread.h>
#include <sched.h>

namespace numc {

// All mutexes. A fork waits until no thread holds one of them, so that its child finds them free.
class Forks {
 public:
  Forks() {
    pthread_atfork([] { all().hold(); }, [] { all().release(); }, [] { all().release(); });
  }
  static Forks &all() {
    static Forks *const made = new Forks;
    return *made;
  }
  void add(Mutex &mutex) {
    const std::lock_guard<std::mutex> lock(mutex_);
    mutex.next_ = first_;
    if (first_ != nullptr) first_->previous_ = &mutex;
    first_ = &mutex;
  }
  void remove(Mutex &mutex) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (mutex.previous_ != nullptr) mutex.previous_->next_ = mutex.next_;
    if (mutex.next_ != nullptr) mutex.next_->previous_ = mutex.previous_;
    if (first_ == &mutex) first_ = mutex.next_;
  }

 private:
  void hold() {
    mutex_.lock();
    for (Mutex *each = first_; each != nullptr;) {
      if (each->mutex_.try_lock()) {
        each = each->next_;
        continue;
      }
      unlock_before(each);
      sched_yield();
      each = first_;
    }
  }
  void release() {
    unlock_before(nullptr);
    mutex_.unlock();
  }
  void unlock_before(const Mutex *end) {
    for (Mutex *each = first_; each != end; each = each->next_) each->mutex_.unlock();
  }

  std::mutex mutex_;  // guards the list
  Mutex *first_ = nullptr;
};

namespace {

[[maybe_unused]] const Forks &registered = Forks::all();  // while there is one thread

}  // namespace

Mutex::Mutex() { Forks::all().add(*this); }
Mutex::~Mutex() { Forks::all().remove(*this); }

}  // namespace numc
