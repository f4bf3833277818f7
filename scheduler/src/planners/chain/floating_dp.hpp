// FloatingProgram: the least recompute time of weakly persistent schedules of a chain (rotor2024,
// Algorithms 1 and 2): the latest kept input, the floating one, may give way to a later one.
//
// extra(s, t, l, m): time that the backward of stages l … t takes beyond one forward and one
// backward each, from stage s's input, which is gone in the end, within m slots beyond it.
//
//   input[s] ─► s … c-1 ─► input[c], kept ─► backward of l … t'        keep: then from input[s]
//                                             backward of t'-1 … t
//   input[s] ─► s … r-1 ─► input[r]: s's input goes                    move: then from input[r]
//   s = t:   ─► ā of s is kept ─► backward of l … s+1, then of s       save
//
// The paper tries all triples (r, c, t') at once. Here the move is a choice of its own, and the
// best c for each t' is found once for all t: a factor of n^2 less time, for the same schedules.
#pragma once

#include <functional>
#include <vector>

#include "planners/chain/chain_program.hpp"
#include "planners/chain/slot_sizes.hpp"

namespace ebbtide::scheduler {

class FloatingProgram : public ChainProgram {
 public:
  // As PersistentProgram's. Takes n^3/6 · slots entries of memory, n^4/12 · slots operations.
  FloatingProgram(const ChainCosts& costs, const SlotGrid& grid, Nanoseconds most_ns,
                  const std::function<bool()>& late);

  bool feasible(std::int32_t slots) const override;
  Nanoseconds extraNs(std::int32_t slots) const override;
  std::int32_t stepBelow(std::int32_t slots) const override;
  ChainSchedule schedule(std::int32_t slots) const override;

 private:
  struct State {
    std::size_t s, t, l;
    std::int32_t slots;
  };
  struct Task {
    State state;
    bool backward = false;  // of stage s alone
  };

  std::size_t width() const { return static_cast<std::size_t>(grid_.slots) + 1; }
  std::size_t index(std::size_t s, std::size_t t, std::size_t l) const;
  std::int32_t* row(std::size_t s, std::size_t t, std::size_t l) {
    return &times_[index(s, t, l) * width()];
  }
  std::int32_t at(const State& state) const;

  void fill(std::size_t s, std::size_t t, std::size_t l);
  void offerSave(std::size_t s, std::size_t l);
  void offerMoves(std::size_t s, std::size_t t, std::size_t l);
  void offerKeeps(std::size_t s, std::size_t t, std::size_t l);
  void findKeeps(std::size_t t, std::size_t l);
  void offerShifted(std::int32_t* to, const std::int32_t* from, std::int32_t shift,
                    std::int32_t first, std::int32_t add) const;
  bool takeSave(const State& state, std::vector<Task>& tasks, ChainSchedule& steps) const;
  bool takeMove(const State& state, std::vector<Task>& tasks, ChainSchedule& steps) const;
  void takeKeep(const State& state, std::vector<Task>& tasks, ChainSchedule& steps) const;

  const SlotGrid grid_;
  const std::size_t stages_;
  SlotSizes sizes_;
  std::vector<std::int32_t> times_;  // rows of width() entries
  // For the l at hand, per t' and s: the best keep of an input after s's. inner_: where s is not
  // the first stage of the forward.
  std::vector<std::int32_t> keeps_, inner_;
};

}  // namespace ebbtide::scheduler
