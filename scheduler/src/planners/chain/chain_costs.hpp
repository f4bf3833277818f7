// ChainCosts: what the chain programs see of a training step: stages 0 … n-1, each with bytes and
// times of its forward run and its backward, and the steps that such a program puts in order.
//
//   input[0] ─stage 0─► input[1] ─stage 1─► … ─stage n-1
//
// Bytes "beyond" leave out what the state of the program counts apart.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

// A way to save less than ā: the stage's backward replays what it misses.
struct PartialSave {
  Bytes saved = 0;          // in place of ā, the output included
  Bytes forward_below = 0;  // by so much its forward takes less than one that saves ā
  Bytes backward = 0;
  // Time beyond that of saving ā: where the forward runs for the first time, and again.
  Nanoseconds first_ns = 0, again_ns = 0;

  friend bool operator==(const PartialSave&, const PartialSave&) = default;
};

struct ChainCosts {
  std::vector<Bytes> input;  // a of the stage before; of stage 0 what is live throughout
  std::vector<Bytes> saved;  // ā: what the stage's backward reads, its output among it
  // While the stage's forward runs, beyond its input: for the first time, and again (then beyond
  // `held` too). `run`: only its output stays; `save`: all that its backward reads stays.
  std::vector<Bytes> first_run, first_save, again_run, again_save;
  std::vector<Bytes> held;      // δ: other bytes live while forwards run again for this backward
  std::vector<Bytes> backward;  // peak of its backward beyond its input, ā included
  std::vector<Nanoseconds> run_ns, save_ns;       // to run it again
  std::vector<std::vector<PartialSave>> partial;  // per stage; empty: none anywhere

  std::size_t stages() const { return saved.size(); }
  // Peak of stage s's forward where stage t's backward comes next, beyond the input.
  Bytes runPeak(std::size_t s, std::size_t t) const {
    return t + 1 == stages() ? first_run[s] : held[t] + again_run[s];
  }
  Bytes savePeak(std::size_t s, std::size_t t) const {
    return t + 1 == stages() ? first_save[s] : held[t] + again_save[s];
  }
  std::size_t partials(std::size_t s) const { return partial.empty() ? 0 : partial[s].size(); }
  Bytes partialPeak(std::size_t s, std::size_t t, std::size_t which) const {
    const PartialSave& save = partial[s][which];
    return std::max(savePeak(s, t) - save.forward_below, save.backward);
  }
  Nanoseconds partialNs(std::size_t s, std::size_t t, std::size_t which) const {
    return t + 1 == stages() ? partial[s][which].first_ns : partial[s][which].again_ns;
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
  std::int32_t partial = kNone;  // kRunSave: which of the stage's partial saves; kNone: all of ā

  friend bool operator==(const ChainStep&, const ChainStep&) = default;
};

using ChainSchedule = std::vector<ChainStep>;

}  // namespace ebbtide::scheduler
