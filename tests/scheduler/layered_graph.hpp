// Random layered graphs as moccasin2023, section 3.1, takes them from Gagrani et al. 2022,
// Appendix A: inference graphs of complex topology.
//
//   source ─ layer 1 ─ layer 2 ─ … ─ target      on the average 0.43 times as wide as deep
//
// Parameters are those in the names of the published files (w, nlv, ed, scd); how they act was read
// off G1 and G2: between neighbouring layers each node has an edge at least, and a fifth of all
// other pairs have one; 14 % of all edges skip layers. Sizes follow the published distribution,
// durations are uniform below 1000. G4's 1000 nodes had 5875 edges and a peak of 608,619.
#pragma once

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/graph.hpp"

namespace ebbtide::scheduler {

struct LayeredSpec {
  std::size_t nodes = 1000;
  double width_over_depth = 0.43;
  double width_variation = 0.75;
  double edge_density = 0.2;
  double skip_share = 0.14;
};

class LayeredGraph {
 public:
  LayeredGraph(const LayeredSpec& spec, std::uint64_t seed) : random_(seed) {
    makeLayers(spec);
    joinLayers(spec);
    const std::size_t all =
        static_cast<std::size_t>(static_cast<double>(edges_.size()) / (1 - spec.skip_share));
    while (edges_.size() < all) skip();
  }

  std::size_t edges() const { return edges_.size(); }

  // Ops in a random topological order.
  Graph take() {
    std::vector<std::vector<std::size_t>> next(layer_of_.size());
    std::vector<int> missing(layer_of_.size(), 0);
    for (const auto& [from, to] : edges_) {
      next[from].push_back(to);
      ++missing[to];
    }
    std::vector<std::size_t> ready{0};
    std::vector<OpId> op_of(layer_of_.size(), kNone);
    Graph graph;
    graph.any_order = true;
    while (!ready.empty()) {
      std::swap(ready[pick(ready.size())], ready.back());
      const std::size_t node = ready.back();
      ready.pop_back();
      op_of[node] = static_cast<OpId>(graph.ops.size());
      addOp(graph, node);
      for (std::size_t after : next[node]) {
        if (--missing[after] == 0) ready.push_back(after);
      }
    }
    for (const auto& [from, to] : edges_) graph.ops[op_of[to]].inputs.push_back(op_of[from]);
    return graph;
  }

 private:
  std::size_t pick(std::size_t size) { return static_cast<std::size_t>(random_() % size); }

  void makeLayers(const LayeredSpec& spec) {
    const double width = std::sqrt(static_cast<double>(spec.nodes) * spec.width_over_depth);
    layers_.push_back({0});
    layer_of_.push_back(0);
    while (layer_of_.size() + 1 < spec.nodes) {
      const double share = 1 + spec.width_variation * (static_cast<double>(pick(2001)) / 1000 - 1);
      const std::size_t wanted = static_cast<std::size_t>(std::max(1.0, std::round(width * share)));
      layers_.emplace_back();
      for (std::size_t i = 0; i < wanted && layer_of_.size() + 1 < spec.nodes; ++i) add();
    }
    layers_.emplace_back();
    add();
  }

  void add() {
    layers_.back().push_back(layer_of_.size());
    layer_of_.push_back(layers_.size() - 1);
  }

  void joinLayers(const LayeredSpec& spec) {
    for (std::size_t layer = 0; layer + 1 < layers_.size(); ++layer) {
      auto &here = layers_[layer], &after = layers_[layer + 1];
      std::shuffle(here.begin(), here.end(), random_);
      std::shuffle(after.begin(), after.end(), random_);
      for (std::size_t i = 0; i < std::max(here.size(), after.size()); ++i) {
        edges_.emplace(here[i < here.size() ? i : pick(here.size())],
                       after[i < after.size() ? i : pick(after.size())]);
      }
      for (std::size_t from : here) {
        for (std::size_t to : after) {
          if (static_cast<double>(pick(1000)) < 1000 * spec.edge_density) edges_.emplace(from, to);
        }
      }
    }
  }

  // From any node to a node of any layer that is not the next, nor the target's.
  void skip() {
    const std::size_t from = 1 + pick(layer_of_.size() - 2), layer = layer_of_[from];
    if (layer + 3 >= layers_.size()) return;
    const auto& after = layers_[layer + 2 + pick(layers_.size() - 3 - layer)];
    edges_.emplace(from, after[pick(after.size())]);
  }

  void addOp(Graph& graph, std::size_t node) {
    const OpId id = static_cast<OpId>(graph.ops.size());
    const bool ends = node == 0 || node + 1 == layer_of_.size();
    Op op;
    op.name = std::to_string(node);
    op.duration_ns = ends ? 0 : static_cast<Nanoseconds>(pick(1000));
    op.rerunnable = true;
    op.outputs = {id};
    graph.ops.push_back(std::move(op));
    Value value;
    value.bytes = 10 * static_cast<Bytes>(pick(100) < 53 ? 1 + pick(130) : 130 + pick(440));
    value.producer = id;
    graph.values.push_back(value);
  }

  std::mt19937_64 random_;
  std::vector<std::vector<std::size_t>> layers_;
  std::vector<std::size_t> layer_of_;  // per node
  std::set<std::pair<std::size_t, std::size_t>> edges_;
};

}  // namespace ebbtide::scheduler
