#include "search/value_classes.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace ebbtide::scheduler {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t next) {
  hash ^= next + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdULL;
  return hash ^ (hash >> 33);
}

std::uint64_t hashText(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (unsigned char letter : text) hash = (hash ^ letter) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

std::vector<std::vector<ValueId>> valueClasses(const Graph& graph,
                                               const std::vector<ValueId>& values) {
  std::vector<std::uint64_t> own(graph.ops.size());
  for (std::size_t id = 0; id < graph.ops.size(); ++id) {
    const Op& op = graph.ops[id];
    own[id] = hashText(op.name);
    for (const auto* list : {&op.inputs, &op.outputs}) {
      own[id] = mix(own[id], list->size());
      for (ValueId value : *list) {
        own[id] = mix(own[id], static_cast<std::uint64_t>(graph.values[value].bytes));
      }
    }
  }
  std::vector<std::vector<ValueId>> classes;
  std::unordered_map<std::uint64_t, std::size_t> index;
  for (ValueId value : values) {
    const OpId producer = graph.values[value].producer;
    std::uint64_t hash = own[producer];
    for (ValueId input : graph.ops[producer].inputs) {
      const OpId before = graph.values[input].producer;
      hash = mix(hash, before == kNone ? 0 : own[before]);
    }
    const auto& outputs = graph.ops[producer].outputs;
    const auto position = std::find(outputs.begin(), outputs.end(), value) - outputs.begin();
    hash = mix(hash, static_cast<std::uint64_t>(position));
    const auto [found, added] = index.try_emplace(hash, classes.size());
    if (added) classes.emplace_back();
    classes[found->second].push_back(value);
  }
  return classes;
}

}  // namespace ebbtide::scheduler
