// Random graphs of the papers' models, whose ops run in any order.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "unit_graphs.hpp"

namespace ebbtide::scheduler {

// Each op reads up to three earlier ones, most often recent ones. Values of 0 to 99 bytes.
inline Graph randomOrderGraph(std::uint64_t seed, std::size_t ops) {
  std::mt19937_64 random(seed);
  UnitGraph graph;
  for (std::size_t id = 0; id < ops; ++id) {
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; id > 0 && i < random() % 4; ++i) {
      const std::size_t reach = random() % 3 > 0 ? std::min<std::size_t>(id, 5) : id;
      const auto input = static_cast<ValueId>(id - 1 - random() % reach);
      if (std::count(inputs.begin(), inputs.end(), input) == 0) inputs.push_back(input);
    }
    graph.add(inputs, static_cast<Bytes>(random() % 100));
  }
  return graph.take();
}

// A graph of pathwidth at most `width`: along a path of bags of width + 1 nodes each node meets
// those of its bags, with edges drawn at random and directed by a random order of all nodes, or,
// with `spine`, by one in which each node reads the one before it.
inline Graph randomGraphOfPathwidth(std::uint64_t seed, std::size_t nodes, std::size_t width,
                                    bool spine) {
  std::mt19937_64 random(seed);
  std::vector<std::pair<std::size_t, std::size_t>> edges;
  std::vector<std::size_t> bag;
  for (std::size_t node = 0; node < nodes; ++node) {
    if (bag.size() > width) {
      // A spine's next node must meet the last one.
      const std::size_t from = spine ? bag.size() - 1 : bag.size();
      bag.erase(bag.begin() +
                static_cast<std::ptrdiff_t>(random() % std::max<std::size_t>(1, from)));
    }
    for (std::size_t other : bag) {
      if (random() % 2 == 0 || (spine && other + 1 == node)) edges.emplace_back(other, node);
    }
    bag.push_back(node);
  }
  std::vector<std::size_t> rank(nodes);
  std::iota(rank.begin(), rank.end(), std::size_t{0});
  if (!spine) std::shuffle(rank.begin(), rank.end(), random);
  std::vector<std::vector<ValueId>> inputs(nodes);
  for (const auto& [a, b] : edges) {
    const auto [first, second] = std::minmax(rank[a], rank[b]);
    inputs[second].push_back(static_cast<ValueId>(first));
  }
  UnitGraph graph;
  for (auto& list : inputs) graph.add(std::move(list));
  return graph.take();
}

// The most bytes that an op reads.
inline Bytes mostInputBytes(const Graph& graph) {
  Bytes most = 0;
  for (const Op& op : graph.ops) {
    Bytes bytes = 0;
    for (ValueId input : op.inputs) bytes += graph.values[input].bytes;
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace ebbtide::scheduler
