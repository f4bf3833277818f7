// FirstOfForks: a question that one of a process and of those forked from it is told yes to. What
// is to be said once is so where each forked child takes itself for the job's only rank. Thread
// rule: any thread, of any of them. Torch-free.
#pragma once

#include <atomic>

namespace ebbtide::plugin {

class FirstOfForks {
 public:
  FirstOfForks() noexcept;  // before they are forked
  ~FirstOfForks();
  FirstOfForks(const FirstOfForks&) = delete;
  FirstOfForks& operator=(const FirstOfForks&) = delete;

  bool take() noexcept;  // true: nobody has asked before

 private:
  std::atomic<bool> own_{false};
  std::atomic<bool>* taken_;  // on a page that all share, or own_ where there is no memory for one
};

}  // namespace ebbtide::plugin
