// Least makespan of a tiny chain over all valid sequences of rotor2024, Definition 3.1, by
// Dijkstra's algorithm over the states of memory. Shares nothing with the chain programs.
#pragma once

#include <map>
#include <optional>
#include <queue>
#include <tuple>

#include "model/chain.hpp"

namespace ebbtide::scheduler {

class ChainBruteForce {
 public:
  // Persistent: Definition 4.1's sequences only.
  ChainBruteForce(const Chain& chain, Bytes budget, bool persistent)
      : chain_(chain), budget_(budget), persistent_(persistent), stages_(chain.stages()) {}

  std::optional<Nanoseconds> leastMakespan() {
    push(State{1, 0, 0, static_cast<unsigned>(stages_)}, 0);
    while (!queue_.empty()) {
      const auto [time, state] = queue_.top();
      queue_.pop();
      if (state.next == 0) return time;
      if (time > best_.at(state)) continue;
      expand(state, time);
    }
    return std::nullopt;
  }

 private:
  // Stages count from 1. Bit i-1 of kept: the input of stage i, aⁱ⁻¹, is kept; of saved: āⁱ is.
  // at: the activation that the last forward left, to be used at once or lost. next: the backward
  // to come.
  struct State {
    unsigned kept, saved, at, next;
    auto operator<=>(const State&) const = default;
  };
  using Entry = std::pair<Nanoseconds, State>;

  static bool has(unsigned set, unsigned stage) {
    return stage > 0 && (set >> (stage - 1) & 1) != 0;
  }
  Bytes activation(unsigned i) const { return i < stages_ ? chain_.activation_bytes[i] : 0; }
  Bytes savedBytes(unsigned stage) const {
    return std::max(chain_.saved_bytes[stage - 1], activation(stage));
  }
  bool available(const State& state, unsigned i) const {
    return has(state.kept, i + 1) || has(state.saved, i) || state.at == i;
  }
  // Values and the gradient of the next backward; a⁰ is never lost.
  Bytes stored(const State& state) const {
    Bytes sum = activation(0) + activation(state.next);
    for (unsigned i = 1; i <= stages_; ++i) {
      if (has(state.saved, i)) sum += savedBytes(i);
      const bool lone = has(state.kept, i + 1) || state.at == i;
      if (!has(state.saved, i) && lone) sum += activation(i);
    }
    return sum;
  }

  void push(const State& state, Nanoseconds time) {
    const auto [found, added] = best_.try_emplace(state, time);
    if (!added && found->second <= time) return;
    found->second = time;
    queue_.push({time, state});
  }

  unsigned latestKept(const State& state) const {
    unsigned latest = 0;
    for (unsigned i = 2; i <= stages_; ++i) {
      if (has(state.kept | state.saved, i)) latest = i;
    }
    return latest;
  }

  void expand(const State& state, Nanoseconds time) {
    for (unsigned stage = 1; stage <= state.next; ++stage) {
      if (available(state, stage - 1)) forward(state, time, stage);
    }
    if (has(state.saved, state.next) && available(state, state.next - 1)) backward(state, time);
  }

  void forward(const State& state, Nanoseconds time, unsigned stage) {
    if (persistent_ && (stage < latestKept(state) || has(state.saved, stage))) return;
    // The output beside what is stored; an activation left by another forward is lost first.
    State before = state;
    if (before.at != stage - 1) before.at = 0;
    const Bytes workspace = chain_.forward_workspace_bytes[stage - 1];
    const Nanoseconds after = time + chain_.forward_ns[stage - 1];
    const unsigned bit = 1u << (stage - 1);
    const bool present = has(before.saved, stage) || has(before.kept, stage + 1);
    const Bytes lone = stored(before) + (present ? 0 : activation(stage));
    if (lone + workspace <= budget_) {
      push({before.kept, before.saved, stage, state.next}, after);
      // F∅ is what discards a kept input.
      const bool discards = !persistent_ && stage > 1 && !has(before.saved, stage);
      if (discards) push({before.kept & ~bit, before.saved, stage, state.next}, after);
      push({before.kept | bit, before.saved, stage, state.next}, after);
    }
    if (has(before.saved, stage)) return;
    const Bytes all =
        stored(before) + savedBytes(stage) - (has(before.kept, stage + 1) ? activation(stage) : 0);
    if (all + workspace <= budget_) {
      push({before.kept | bit, before.saved | bit, stage, state.next}, after);
    }
  }

  void backward(const State& state, Nanoseconds time) {
    const unsigned stage = state.next, bit = 1u << (stage - 1);
    State before = state;
    if (before.at != stage - 1) before.at = 0;
    const Bytes bytes =
        stored(before) + activation(stage - 1) + chain_.backward_workspace_bytes[stage - 1];
    if (bytes > budget_) return;
    push({(state.kept & ~bit) | 1, state.saved & ~bit, 0, stage - 1},
         time + chain_.backward_ns[stage - 1]);
  }

  const Chain& chain_;
  const Bytes budget_;
  const bool persistent_;
  const std::size_t stages_;
  std::map<State, Nanoseconds> best_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace ebbtide::scheduler
