#include "ebbtide/scheduler/joined_ranks.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/median.hpp"
#include "pipeline/chunk_links.hpp"
#include "pipeline/shared_profiles.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = PipelineAction::Kind;

class Joiner {
 public:
  Joiner(const std::vector<RankActions>& ranks, const std::vector<std::vector<PartCosts>>& costs)
      : ranks_(ranks), costs_(costs) {}

  JoinedRanks join() {
    checkRanks();
    links_ = linkChunks(ranks_);
    findChains();
    if (areNamed(ranks_))
      placeByName();
    else
      placeByChains();
    nameActions();
    makeStages();
    makeProfiles();
    shareProfiles(out_.job);
    checkJob(out_.job);
    return std::move(out_);
  }

 private:
  struct Place {
    std::int32_t stage = kNone, microbatch = kNone;
  };
  using Chain = std::vector<ChunkId>;  // of one microbatch, from its first stage to its last one

  void checkRanks() const {
    bool messages = false;
    if (ranks_.empty()) throw std::invalid_argument("no rank");
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::string name = "rank " + std::to_string(rank) + ": ";
      if (!ranks_[rank].refusal.empty()) throw std::invalid_argument(name + ranks_[rank].refusal);
      if (ranks_[rank].chunks.empty()) throw std::invalid_argument(name + "no action");
      if (rank >= costs_.size() ||
          costs_[rank].size() != static_cast<std::size_t>(ranks_[rank].parts)) {
        throw std::invalid_argument(name + "not as many costs as it has stages");
      }
      for (const RankAction& action : ranks_[rank].actions) {
        messages = messages || !action.sent.empty();
      }
    }
    if (ranks_.size() > 1 && !messages) {
      throw std::invalid_argument("the ranks send each other nothing: they are no pipeline");
    }
  }

  void findChains() {
    std::vector<std::vector<ChunkId>> next(ranks_.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      next[rank].resize(ranks_[rank].chunks.size());
    }
    for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(ranks_.size()); ++rank) {
      for (std::size_t chunk = 0; chunk < links_[rank].size(); ++chunk) {
        const ChunkId from = links_[rank][chunk];
        if (!from.isNone()) next[from.rank][from.chunk] = {rank, static_cast<std::int32_t>(chunk)};
      }
    }
    std::size_t reached = 0, chunks = 0;
    for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(ranks_.size()); ++rank) {
      chunks += links_[rank].size();
      for (std::size_t chunk = 0; chunk < links_[rank].size(); ++chunk) {
        if (!links_[rank][chunk].isNone()) continue;
        Chain chain;
        for (ChunkId at{rank, static_cast<std::int32_t>(chunk)}; !at.isNone();
             at = next[at.rank][at.chunk]) {
          chain.push_back(at);
        }
        reached += chain.size();
        chains_.push_back(std::move(chain));
      }
    }
    if (reached != chunks) throw std::invalid_argument("forwards read each other in a circle");
  }

  Place& placeOf(const ChunkId& id) { return places_[id.rank][id.chunk]; }
  const RankChunk& chunkOf(const ChunkId& id) const { return ranks_[id.rank].chunks[id.chunk]; }

  void clearPlaces() {
    for (const RankActions& rank : ranks_) places_.emplace_back(rank.chunks.size());
  }

  void placeByName() {
    clearPlaces();
    std::set<std::int32_t> stages, microbatches;
    for (const RankActions& rank : ranks_) {
      for (const RankChunk& chunk : rank.chunks) {
        stages.insert(chunk.stage);
        microbatches.insert(chunk.microbatch);
      }
    }
    const auto rankIn = [](const std::set<std::int32_t>& all, std::int32_t name) {
      return static_cast<std::int32_t>(std::distance(all.begin(), all.find(name)));
    };
    for (const Chain& chain : chains_) {
      for (const ChunkId& id : chain) {
        placeOf(id) = {rankIn(stages, chunkOf(id).stage),
                       rankIn(microbatches, chunkOf(id).microbatch)};
      }
    }
    stages_ = static_cast<std::int32_t>(stages.size());
    out_.job.microbatches = static_cast<std::int32_t>(microbatches.size());
  }

  // Chains over the same ranks are microbatches of one pipeline, in the order in which they begin.
  void placeByChains() {
    clearPlaces();
    std::map<std::vector<std::int32_t>, std::vector<const Chain*>> pipelines;
    for (const Chain& chain : chains_) {
      std::vector<std::int32_t> over;
      for (const ChunkId& id : chain) over.push_back(id.rank);
      pipelines[over].push_back(&chain);
    }
    for (auto& [over, microbatches] : pipelines) {
      orderByName(microbatches);
      for (std::size_t i = 0; i < microbatches.size(); ++i) {
        for (std::size_t stage = 0; stage < over.size(); ++stage) {
          const ChunkId& id = (*microbatches[i])[stage];
          placeOf(id) = {stages_ + static_cast<std::int32_t>(stage),
                         out_.job.microbatches + static_cast<std::int32_t>(i)};
          checkStageName(id);
        }
      }
      stages_ += static_cast<std::int32_t>(over.size());
      out_.job.microbatches += static_cast<std::int32_t>(microbatches.size());
    }
  }

  // Chains come in the order of the first stage's forwards; where those are all named, by name.
  void orderByName(std::vector<const Chain*>& microbatches) const {
    std::set<std::int32_t> names;
    const auto nameOfChain = [&](const Chain* chain) { return chunkOf(chain->front()).microbatch; };
    for (const Chain* chain : microbatches) {
      if (nameOfChain(chain) != kNone) names.insert(nameOfChain(chain));
    }
    if (names.size() != microbatches.size()) return;
    std::sort(microbatches.begin(), microbatches.end(),
              [&](const Chain* a, const Chain* b) { return nameOfChain(a) < nameOfChain(b); });
  }

  void checkStageName(const ChunkId& id) {
    const std::int32_t named = chunkOf(id).stage, stage = placeOf(id).stage;
    if (named == kNone || named == stage) return;
    throw std::invalid_argument(nameOf(ranks_, id.rank, forwardOf(id)) + ": named stage " +
                                std::to_string(named) + ", but messages make it stage " +
                                std::to_string(stage));
  }

  std::size_t forwardOf(const ChunkId& id) const {
    const auto& actions = ranks_[id.rank].actions;
    const auto forward =
        std::find_if(actions.begin(), actions.end(), [&](const RankAction& action) {
          return action.chunk == id.chunk && action.kind == Kind::kForward;
        });
    return static_cast<std::size_t>(forward - actions.begin());
  }

  void nameActions() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      std::vector<PipelineAction>& order = out_.job.order.emplace_back();
      for (const RankAction& action : ranks_[rank].actions) {
        const Place& place = places_[rank][action.chunk];
        order.push_back({action.kind, place.stage, place.microbatch});
      }
    }
  }

  void makeStages() {
    PipelineJob& job = out_.job;
    job.stages.resize(stages_);
    job.budgets.assign(ranks_.size(), 0);
    out_.part_of_stage.assign(stages_, kNone);
    for (const Chain& chain : chains_) {
      for (std::size_t i = 0; i < chain.size(); ++i) {
        const std::int32_t number = placeOf(chain[i]).stage;
        Stage& stage = job.stages[number];
        std::int32_t& part = out_.part_of_stage[number];
        const bool is_new = part == kNone;
        if (is_new) {
          stage.profile = number;
          stage.rank = chain[i].rank;
          part = chunkOf(chain[i]).part;
          if (i > 0) stage.previous = placeOf(chain[i - 1]).stage;
          if (i + 1 < chain.size()) stage.next = placeOf(chain[i + 1]).stage;
        }
        if (stage.rank != chain[i].rank || part != chunkOf(chain[i]).part) {
          throw std::invalid_argument(
              nameOf(ranks_, chain[i].rank, forwardOf(chain[i])) +
              ": not with the parameters of its stage's other microbatches");
        }
      }
    }
  }

  void makeProfiles() {
    std::vector<std::vector<std::vector<Nanoseconds>>> times(stages_);  // by stage, by kind
    out_.job.profiles.resize(stages_);
    for (std::int32_t stage = 0; stage < stages_; ++stage) {
      times[stage].resize(4);
      const PartCosts& costs = costs_[out_.job.stages[stage].rank][out_.part_of_stage[stage]];
      StageProfile& profile = out_.job.profiles[stage];
      profile.name = "stage " + std::to_string(stage);
      // Replayed ahead it holds what it does with everything kept.
      for (StagePoint point : costs.points) {
        if (point.recompute_ns > 0) point.ahead_bytes = costs.points.front().backward_bytes;
        profile.points.push_back(point);
      }
      profile.fixed_bytes = costs.fixed_bytes;
      profile.weight_held_bytes = costs.weight_held_bytes;
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const RankAction& action : ranks_[rank].actions) {
        const std::int32_t stage = places_[rank][action.chunk].stage;
        times[stage][static_cast<std::size_t>(action.kind)].push_back(action.busy_ns);
        if (action.kind != Kind::kForward) continue;
        Bytes sent = 0;
        for (const RankMessage& message : action.sent) sent += message.bytes;
        Bytes& output = out_.job.profiles[stage].output_bytes;
        output = std::max(output, sent);
      }
    }
    for (std::int32_t stage = 0; stage < stages_; ++stage) setTimes(stage, times[stage]);
    shareTails();
  }

  void setTimes(std::int32_t stage, const std::vector<std::vector<Nanoseconds>>& times) {
    const auto of = [&](Kind kind) { return lowerMedian(times[static_cast<std::size_t>(kind)]); };
    StageProfile& profile = out_.job.profiles[stage];
    profile.forward_ns = of(Kind::kForward);
    if (times[static_cast<std::size_t>(Kind::kInputBackward)].empty()) {
      profile.input_backward_ns = of(Kind::kBackward) / 2;
      profile.weight_backward_ns = of(Kind::kBackward) - profile.input_backward_ns;
    } else {
      profile.input_backward_ns = of(Kind::kInputBackward);
      profile.weight_backward_ns = of(Kind::kWeightBackward);
    }
  }

  void shareTails() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      std::vector<std::int32_t> own;
      for (std::int32_t stage = 0; stage < stages_; ++stage) {
        if (out_.job.stages[stage].rank == static_cast<std::int32_t>(rank)) own.push_back(stage);
      }
      const auto count = static_cast<Nanoseconds>(own.size());
      for (Nanoseconds i = 0; i < count; ++i) {
        out_.job.profiles[own[i]].tail_ns =
            ranks_[rank].once_ns / count + (i < ranks_[rank].once_ns % count ? 1 : 0);
      }
    }
  }

  const std::vector<RankActions>& ranks_;
  const std::vector<std::vector<PartCosts>>& costs_;
  ChunkLinks links_;
  std::vector<Chain> chains_;
  std::vector<std::vector<Place>> places_;  // by rank, by chunk
  std::int32_t stages_ = 0;
  JoinedRanks out_;
};

}  // namespace

JoinedRanks joinRanks(const std::vector<RankActions>& ranks,
                      const std::vector<std::vector<PartCosts>>& costs) {
  return Joiner(ranks, costs).join();
}

}  // namespace ebbtide::scheduler
