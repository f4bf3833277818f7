// ChainCosts: what the chain programs see of a training step: stages 0 … n-1, each with bytes and
// times of its forward run and its backward, and the steps that such a program puts in order.
//
//   input[0] ─stage 0─► input[1] ─stage 1─► … ─stage n-1
//
// Bytes "beyond" leave out what the state of the program counts apart.
#pragma once

#include <cstdint>
#include <vector>

#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

struct ChainCosts {
  std::vector<Bytes> input;  // a of the stage before; of stage 0 what is live throughout
  std::vector<Bytes> saved;  // ā: what the stage's backward reads, its output among it
  // While the stage's forward runs, beyond its input: for the first time, and again (then beyond
  // `held` too). `run`: only its output stays; `save`: all that its backward reads stays.
  std::vector<Bytes> first_run, first_save, again_run, again_save;
  std::vector<Bytes> held;      // δ: other bytes live while forwards run again for this backward
  std::vector<Bytes> backward;  // peak of its backward beyond its input, ā included
  std::vector<Nanoseconds> run_ns, save_ns;  // to run it again

  std::size_t stages() const { return saved.size(); }
  // Peak of stage s's forward where stage t's backward comes next, beyond the input.
  Bytes runPeak(std::size_t s, std::size_t t) const {
    return t + 1 == stages() ? first_run[s] : held[t] + again_run[s];
  }
  Bytes savePeak(std::size_t s, std::size_t t) const {
    return t + 1 == stages() ? first_save[s] : held[t] + again_save[s];
  }
  // What dropping stage s on the way to stage t costs. What runs for the first time will run once
  // more to save.
  Nanoseconds dropNs(std::size_t s, std::size_t t) const {
    return t + 1 == stages() ? save_ns[s] : run_ns[s];
  }
};

// Operations of rotor2024, Table 1.
struct ChainStep {
  enum class Kind : std::uint8_t {
    kRun,       // F∅: the input goes
    kRunKeep,   // Fck: the input stays
    kRunSave,   // Fall: the input and ā stay
    kBackward,  // ā goes; the input too unless the ā of the stage before holds it
  };
  Kind kind = Kind::kRun;
  std::int32_t stage = 0;

  friend bool operator==(const ChainStep&, const ChainStep&) = default;
};

using ChainSchedule = std::vector<ChainStep>;

}  // namespace ebbtide::scheduler
