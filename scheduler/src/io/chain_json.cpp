#include "io/chain_json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "base/json_text.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr double kMostSeconds = 4.6e9;  // 146 years are 2^62 nanoseconds

std::vector<Nanoseconds> readSeconds(const JsonObject& fields, const char* key) {
  std::vector<Nanoseconds> list;
  for (const double seconds : fields.numbers(key)) {
    if (!(seconds >= 0 && seconds <= kMostSeconds)) {
      fields.fail(std::string(key) + "[" + std::to_string(list.size()) +
                  "]: is not a time from 0 to 146 years, in seconds");
    }
    list.push_back(std::llround(seconds * 1e9));
  }
  return list;
}

}  // namespace

Chain chainFromTree(const nlohmann::json& tree) {
  const JsonObject fields(tree, "chain");
  fields.expectFormat("ebbtide-chain-1");
  fields.expectOnly({"format", "activation_bytes", "saved_bytes", "forward_workspace_bytes",
                     "backward_workspace_bytes", "forward_seconds", "backward_seconds"});
  Chain chain;
  chain.activation_bytes = fields.integers("activation_bytes");
  chain.saved_bytes = fields.integers("saved_bytes");
  chain.forward_workspace_bytes = fields.integers("forward_workspace_bytes");
  chain.backward_workspace_bytes = fields.integers("backward_workspace_bytes");
  chain.forward_ns = readSeconds(fields, "forward_seconds");
  chain.backward_ns = readSeconds(fields, "backward_seconds");
  try {
    checkChain(chain);
  } catch (const std::invalid_argument& error) {
    fields.fail(error.what());
  }
  return chain;
}

}  // namespace ebbtide::scheduler
