#include "observe/asked_steps.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <filesystem>
#include <utility>

namespace ebbtide::plugin {

namespace {

AskedSteps::Started ended() {
  return {.error = "training has ended", .why = AskedSteps::Started::Why::kEnded};
}

}  // namespace

AskedSteps::Started AskedSteps::start(std::int64_t steps,
                                      const std::function<std::string(std::int64_t)>& prepare,
                                      std::function<void(const std::string&)> write) try {
  const std::lock_guard one_at_a_time(starting_);
  std::int64_t from_step = 0;
  {
    const std::lock_guard lock(mutex_);
    if (closing_) return ended();
    if (state_ != State::kNone)
      return {.error = fmt::format("a {} of {} step{} from step {} on is not written yet", what_,
                                   steps_, steps_ == 1 ? "" : "s", from_step_)};
    from_step = running_step_ + 1;
  }
  if (writer_.joinable()) writer_.join();  // it has written
  Started started{.path = prepare(from_step)};
  std::string path = started.path;
  writer_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "ebbtide-trace");
    writeWhenOver();
  });
  // Nothing throws from here on: a writer that nothing was asked of would be waited for for ever.
  const std::lock_guard lock(mutex_);
  if (closing_) return ended();
  path_.swap(path);
  write_.swap(write);
  started.from_step = from_step_ = running_step_ + 1;  // one may have begun meanwhile
  steps_ = steps;
  state_ = State::kWaits;
  return started;
} catch (const std::exception& error) {
  return {.error = fmt::format("no {} can be recorded: {}", what_, error.what()),
          .why = Started::Why::kFailed};
}

bool AskedSteps::beginsAt(std::int64_t step) noexcept {
  const std::lock_guard lock(mutex_);
  running_step_ = step;
  if (closing_ || state_ != State::kWaits || step < from_step_) return false;
  from_step_ = step;
  state_ = State::kRuns;
  return true;
}

bool AskedSteps::endsAt(std::int64_t step) noexcept {
  const std::lock_guard lock(mutex_);
  if (state_ != State::kRuns || step < from_step_ + steps_ - 1) return false;
  state_ = State::kOver;
  changed_.notify_all();
  return true;
}

void AskedSteps::writeWhenOver() noexcept {
  bool any = false;
  std::string path;
  std::function<void(const std::string&)> write;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closing_ || state_ == State::kOver; });
    any = state_ == State::kRuns || state_ == State::kOver;
    state_ = State::kOver;
    path.swap(path_);
    write.swap(write_);
  }
  if (any) try {
      write(path);
    } catch (...) {  // what goes wrong is the callback's to say
    }
  write = nullptr;
  const std::lock_guard lock(mutex_);
  state_ = State::kNone;
}

void AskedSteps::close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
}

void AskedSteps::finish() noexcept {
  const std::lock_guard one_at_a_time(starting_);
  close();
  if (writer_.joinable()) writer_.join();
}

std::string temporaryFolder() {
  std::error_code none;
  const auto folder = std::filesystem::temp_directory_path(none);
  return none ? "/tmp" : folder.string();
}

}  // namespace ebbtide::plugin
