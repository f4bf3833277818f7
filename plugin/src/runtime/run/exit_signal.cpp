#include "runtime/run/exit_signal.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <exception>
#include <future>
#include <memory>
#include <thread>
#include <utility>

namespace ebbtide::plugin {
namespace {

int told = -1;     // the pipe's end that the handler writes to
pid_t owner = -1;  // whose thread reads it
std::atomic<bool> leaving{false};

void endByDefault() noexcept {
  ::signal(SIGTERM, SIG_DFL);
  ::kill(::getpid(), SIGTERM);
}

// What it calls may be called in a handler.
extern "C" void onExitSignal(int) {
  const int before = errno;
  const char byte = 0;
  if (::getpid() != owner || ::write(told, &byte, 1) != 1) endByDefault();
  errno = before;
}

// The process does not outlive its signal, whatever `leave` waits for.
void leaveWithin(const std::function<void()>& leave, std::chrono::milliseconds most_wait) {
  auto done = std::make_shared<std::promise<void>>();
  std::future<void> left = done->get_future();
  std::thread([leave, done] {
    try {
      leave();
    } catch (const std::exception&) {  // the process ends
    }
    done->set_value();
  }).detach();
  left.wait_for(most_wait);
}

// Signals are the main thread's: the new thread inherits a mask that blocks them all.
void startReader(int read_end, std::function<void()> leave, std::chrono::milliseconds most_wait) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread reader([read_end, most_wait, leave = std::move(leave)] {
      char byte = 0;
      while (::read(read_end, &byte, 1) < 0 && errno == EINTR) {
      }
      leaving = true;
      try {
        leaveWithin(leave, most_wait);
      } catch (const std::exception&) {  // no thread is left for it
      }
      endByDefault();
    });
    ::pthread_setname_np(reader.native_handle(), "ebbtide-exit");
    reader.detach();
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool isDefault() noexcept {
  struct sigaction now {};
  return ::sigaction(SIGTERM, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
         now.sa_handler == SIG_DFL;
}

bool takeSignal() noexcept {
  struct sigaction ours {
  }, before{};
  ours.sa_handler = onExitSignal;
  ours.sa_flags = SA_RESTART;
  ::sigemptyset(&ours.sa_mask);
  if (::sigaction(SIGTERM, &ours, &before) != 0) return false;
  if ((before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == SIG_DFL) return true;
  ::sigaction(SIGTERM, &before, nullptr);  // another thread was first
  return false;
}

}  // namespace

bool ExitSignal::install(std::function<void()> leave, std::chrono::milliseconds most_wait) try {
  if (owner == ::getpid() || !isDefault()) return false;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  startReader(ends[0], std::move(leave), most_wait);
  told = ends[1];
  owner = ::getpid();
  return takeSignal();
} catch (const std::exception&) {
  return false;
}

void ExitSignal::takeBack() noexcept {
  if (!leaving && owner == ::getpid() && isDefault()) takeSignal();
}

}  // namespace ebbtide::plugin
