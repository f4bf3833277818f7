// ProgramHistory: which programs ran in the last steps, and which one comes next where several take
// turns. Torch-free; whoever has it guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace ebbtide::plugin {

class ProgramHistory {
 public:
  static constexpr std::size_t kMost = 64;  // steps: the longest turn of programs that is foreseen

  // A step of the program with this signature is over.
  void add(std::uint64_t signature);
  std::uint64_t last() const { return last_; }  // 0: none has been
  // What followed where most of the last steps had been the same as now; of several such places the
  // newest. 0: none is expected.
  std::uint64_t expected() const;

 private:
  std::deque<std::uint64_t> steps_;  // the last one at its end
  std::uint64_t last_ = 0;
};

}  // namespace ebbtide::plugin
