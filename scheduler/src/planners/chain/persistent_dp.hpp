// PersistentProgram: the least recompute time of memory-persistent schedules of a chain (rotor2024,
// Algorithms 3 and 4), for all budgets up to one at once.
//
// extra(s, t, m): time that stages s … t take beyond one forward and one backward each, within m
// slots beyond stage s's input. It falls as m rises, so its row is held only from the first
// feasible slot to the first at which it is 0:
//
//   ∞ ∞ ∞ | 90 70 70 31 0 | 0 0 0 …
//         first          last
//
// Times from a bound on that is known to suffice count as infeasible, which shortens rows and the
// list of cuts worth trying.
#pragma once

#include <memory>
#include <vector>

#include "planners/chain/chain_program.hpp"
#include "planners/chain/slot_sizes.hpp"

namespace ebbtide::scheduler {

class PersistentProgram : public ChainProgram {
 public:
  // Finds schedules that recompute for less than `most_ns`: the best ones if that is at most 2^29
  // ns, else to within 2^-29 of it for each stage dropped. `late` may end the work early: then
  // nothing is feasible. The costs must outlive the program.
  PersistentProgram(const ChainCosts& costs, const SlotGrid& grid, Nanoseconds most_ns,
                    const std::function<bool()>& late);

  bool feasible(std::int32_t slots) const override;
  Nanoseconds extraNs(std::int32_t slots) const override;
  std::int32_t stepBelow(std::int32_t slots) const override;
  ChainSchedule schedule(std::int32_t slots) const override;

 private:
  struct Row {
    std::int32_t first = 0, last = -1;  // slots; empty: nothing is feasible
    const std::int32_t* times = nullptr;
  };
  struct Cut {
    const Row& left;   // s … c-1
    const Row& right;  // c … t
    std::int32_t kept, time;
    std::int32_t rightAt(std::int32_t slots) const {
      const std::int32_t inner = slots - kept;
      return time + (inner > right.last ? 0 : right.times[inner - right.first]);
    }
    std::int32_t leftAt(std::int32_t slots) const {
      return slots > left.last ? 0 : left.times[slots - left.first];
    }
  };
  struct Pool {  // rows of one s, side by side; they never move
    std::vector<std::unique_ptr<std::int32_t[]>> blocks;
    std::int32_t* next = nullptr;
    std::size_t left = 0;
    const std::int32_t* add(const std::int32_t* times, std::size_t count);
  };
  struct Choice {
    std::size_t cut = 0;           // the stage before which the input is kept; s: stage s saves
    std::int32_t partial = kNone;  // which partial save, if it does
  };
  // The forward of stages s … c-1 towards the backward of t, which keeps s's input alone.
  struct Forward {
    std::int32_t slots = 0;
    std::int64_t time = 0;
  };

  void beginColumn(std::size_t t);
  void fetch(const Row& left) const;
  void fillRow(std::size_t s, std::size_t t);
  void offerSave(std::size_t s, std::size_t t);
  void offerPartial(std::size_t s, std::size_t t, std::size_t which);
  void offerCut(std::size_t s, std::size_t c, const Forward& forward);
  void offerRange(const Cut& cut, std::int32_t from, std::int32_t to);
  void offerLeaf(const Cut& cut, std::int32_t from, std::int32_t to);
  void extendDown(std::int32_t slot);
  void store(std::size_t s, std::size_t t);
  Forward through(const Forward& before, std::size_t s, std::size_t stage, std::size_t t) const;
  std::int32_t at(std::size_t s, std::size_t t, std::int32_t slots) const;
  Choice choose(std::size_t s, std::size_t t, std::int32_t slots) const;
  bool isPartial(std::size_t s, std::size_t t, std::int32_t slots, std::size_t which) const;
  const Row& row(std::size_t s, std::size_t t) const { return lefts_[s][t - s]; }

  const SlotGrid grid_;
  const std::size_t stages_;
  const SlotSizes sizes_;
  const std::int32_t bound_;                             // times from it on are infeasible
  std::vector<std::int32_t> first_stage_, inner_stage_;  // a stage's forward peak in this column
  std::vector<std::vector<Row>> lefts_;                  // [s][t - s]
  std::vector<Pool> pools_;
  // A copy of the rows that end at the column's t.
  std::vector<Row> column_;
  std::vector<std::int32_t> column_times_;
  std::int32_t* column_next_ = nullptr;

  // The row in the making: best times of slots low_ … end_; above top_ none can get less.
  std::vector<std::int32_t> best_;
  std::int32_t low_ = 0, top_ = 0, end_ = 0;
};

}  // namespace ebbtide::scheduler
