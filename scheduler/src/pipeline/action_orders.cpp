#include "ebbtide/scheduler/action_orders.hpp"

#include <algorithm>
#include <stdexcept>

namespace ebbtide::scheduler {
namespace {

using Kind = PipelineAction::Kind;
using RankOrder = std::vector<PipelineAction>;

// All forwards, then all backwards.
RankOrder gpipe(const PipelineShape& shape, std::int32_t rank) {
  RankOrder order;
  for (const Kind kind : {Kind::kForward, Kind::kBackward}) {
    for (std::int32_t i = 0; i < shape.microbatches; ++i) order.push_back({kind, rank, i});
  }
  return order;
}

// As many forwards as there are stages from here on, then a backward and a forward in turn.
RankOrder oneForwardOneBackward(const PipelineShape& shape, std::int32_t rank) {
  const std::int32_t ahead = std::min(shape.microbatches, shape.ranks - rank);
  RankOrder order;
  for (std::int32_t i = 0; i < ahead; ++i) order.push_back({Kind::kForward, rank, i});
  for (std::int32_t i = 0; i < shape.microbatches; ++i) {
    order.push_back({Kind::kBackward, rank, i});
    if (i + ahead < shape.microbatches) order.push_back({Kind::kForward, rank, i + ahead});
  }
  return order;
}

// The same over all stages of a rank: `ranks` microbatches through one stage, then through the
// rank's next one; backwards from the last stage on.
RankOrder interleaved(const PipelineShape& shape, std::int32_t rank) {
  const std::int32_t of_each = shape.stages_per_rank;
  const std::int32_t total = shape.microbatches * of_each;
  const auto action = [&](Kind kind, std::int32_t number) {
    const std::int32_t turn = number / shape.ranks % of_each;
    const std::int32_t local = kind == Kind::kForward ? turn : of_each - 1 - turn;
    return PipelineAction{kind, local * shape.ranks + rank,
                          number / (shape.ranks * of_each) * shape.ranks + number % shape.ranks};
  };
  const std::int32_t ahead =
      std::min(total, (shape.ranks - rank - 1) * 2 + (of_each - 1) * shape.ranks + 1);
  RankOrder order;
  for (std::int32_t i = 0; i < ahead; ++i) order.push_back(action(Kind::kForward, i));
  for (std::int32_t i = 0; i < total; ++i) {
    order.push_back(action(Kind::kBackward, i));
    if (i + ahead < total) order.push_back(action(Kind::kForward, i + ahead));
  }
  return order;
}

// 1F1B whose weight gradients come as many backwards later as there are stages before: each rank
// then holds what the first one does.
RankOrder zeroBubbleH1(const PipelineShape& shape, std::int32_t rank) {
  RankOrder order;
  std::int32_t weights = 0;
  for (PipelineAction action : oneForwardOneBackward(shape, rank)) {
    if (action.kind == Kind::kBackward) action.kind = Kind::kInputBackward;
    order.push_back(action);
    if (action.kind == Kind::kInputBackward && action.microbatch >= rank) {
      order.push_back({Kind::kWeightBackward, rank, weights++});
    }
  }
  while (weights < shape.microbatches) order.push_back({Kind::kWeightBackward, rank, weights++});
  return order;
}

struct Entry {
  ActionOrderInfo info;
  RankOrder (*order)(const PipelineShape&, std::int32_t);
  bool (*accepts)(const PipelineShape&);
};

bool hasOneStage(const PipelineShape& shape) {
  return shape.stages_per_rank == 1;
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> kEntries = {
      {{"gpipe", "Huang et al. 2019, GPipe, section 2.3", "one stage a rank"}, gpipe, hasOneStage},
      {{"1f1b", "Narayanan et al. 2019, PipeDream, section 3.2, with a flush", "one stage a rank"},
       oneForwardOneBackward,
       hasOneStage},
      {{"interleaved", "Narayanan et al. 2021, Megatron-LM, section 2.2.2",
        "microbatches that are a multiple of the ranks"},
       interleaved,
       [](const PipelineShape& shape) { return shape.microbatches % shape.ranks == 0; }},
      {{"zb-h1", "Qi et al. 2023, Zero Bubble Pipeline Parallelism, section 3.1",
        "one stage a rank"},
       zeroBubbleH1,
       hasOneStage},
  };
  return kEntries;
}

}  // namespace

const std::vector<ActionOrderInfo>& actionOrders() {
  static const std::vector<ActionOrderInfo> kInfos = [] {
    std::vector<ActionOrderInfo> infos;
    for (const Entry& entry : entries()) infos.push_back(entry.info);
    return infos;
  }();
  return kInfos;
}

ActionOrder actionOrder(std::string_view name, const PipelineShape& shape) {
  constexpr std::int64_t kMostActions = 1 << 26;
  if (shape.ranks < 1 || shape.stages_per_rank < 1 || shape.microbatches < 1) {
    throw std::invalid_argument("a pipeline has at least one rank, stage and microbatch");
  }
  if (std::int64_t{shape.ranks} * shape.stages_per_rank > kMostActions / shape.microbatches) {
    throw std::invalid_argument("a pipeline of over 2^26 microbatches times stages");
  }
  std::string known;
  for (const Entry& entry : entries()) {
    if (entry.info.name != name) {
      known += (known.empty() ? "" : ", ") + entry.info.name;
      continue;
    }
    if (!entry.accepts(shape)) {
      throw std::invalid_argument("the schedule " + entry.info.name + " needs " +
                                  entry.info.demands);
    }
    ActionOrder order;
    for (std::int32_t rank = 0; rank < shape.ranks; ++rank) {
      order.push_back(entry.order(shape, rank));
    }
    return order;
  }
  throw std::invalid_argument("no schedule is called '" + std::string(name) + "'; there are " +
                              known);
}

}  // namespace ebbtide::scheduler
