// Mailbox: how an answer from another thread reaches the server's, which may be gone by then.
#pragma once

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace ebbtide::metrics {

class Mailbox {
 public:
  explicit Mailbox(boost::asio::io_context& context) : context_(&context) {}

  // On the server's thread, before anything is run.
  void open() {
    const std::lock_guard lock(mutex_);
    thread_ = std::this_thread::get_id();
  }
  // After the server's thread has ended.
  void close() {
    const std::lock_guard lock(mutex_);
    context_ = nullptr;
  }

  // Runs `work` on the server's thread: at once if this is it, else later. Drops it after close(),
  // in a forked child, and when memory is out: who answers has no use for that error.
  template <typename Work>
  void run(Work work) {
    if (::getpid() != owner_) return;  // nor is the lock to be taken there: it may be held for ever
    {
      const std::lock_guard lock(mutex_);
      if (context_ == nullptr) return;
      if (std::this_thread::get_id() != thread_) {
        try {
          boost::asio::post(*context_, std::move(work));
        } catch (const std::exception&) {
        }
        return;
      }
    }
    work();
  }

 private:
  std::mutex mutex_;
  boost::asio::io_context* context_;
  std::thread::id thread_;
  const pid_t owner_ = ::getpid();
};

}  // namespace ebbtide::metrics
