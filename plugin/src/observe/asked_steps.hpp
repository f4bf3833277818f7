// AskedSteps: something that is recorded over the next few steps because somebody asked for it, and
// then written by a thread of its own.
//
//   start(2) ─► waits ─► ├ step ┼ step ┤ over ─► written
//                 begin()                  write(), on the writer's thread
//
// Thread rule: any thread; one at a time is under way. Torch-free.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace ebbtide::plugin {

class AskedSteps {
 public:
  struct Started {
    std::string path = {};  // where the file will be
    std::int64_t from_step = 0;
    std::string error = {};  // not empty: nothing was begun
    enum class Why : std::uint8_t {
      kNotNow,  // another one is under way, or it is nothing that could be recorded
      kEnded,   // training has
      kFailed,
    };
    Why why = Why::kNotNow;  // of the error
  };
  // What it is that is recorded: "trace". A literal.
  explicit AskedSteps(const char* what) noexcept : what_(what) {}
  ~AskedSteps() { finish(); }

  // `prepare` is called now, with the number of the first step, and gives the path. `write` is
  // called once the last step is over, or the process ends after the first one began. What
  // `prepare` throws, or a want of memory, is an error or goes on to the caller; then nothing is
  // under way. What `write` throws is dropped.
  Started start(std::int64_t steps, const std::function<std::string(std::int64_t)>& prepare,
                std::function<void(const std::string& path)> write);

  bool beginsAt(std::int64_t step) noexcept;  // does the recording begin now?
  bool endsAt(std::int64_t step) noexcept;    // was that its last step? Then it will be written.
  void close() noexcept;   // what runs ends here; whoever asks from now on is refused
  void finish() noexcept;  // and what ran has been written when this returns

 private:
  enum class State : std::uint8_t { kNone, kWaits, kRuns, kOver };

  void writeWhenOver() noexcept;

  const char* const what_;
  std::mutex starting_;  // one start() at a time, and finish(); taken first
  std::thread writer_;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  State state_ = State::kNone;
  std::string path_;
  std::function<void(const std::string&)> write_;
  std::int64_t running_step_ = 0;  // that began last
  std::int64_t from_step_ = 0, steps_ = 0;
  bool closing_ = false;
};

// A folder for files that somebody asked for, without saying where.
std::string temporaryFolder();

}  // namespace ebbtide::plugin
