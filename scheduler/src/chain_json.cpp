#include "chain_json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "json_text.hpp"

namespace ebbtide::scheduler {
namespace {

// 2^62 nanoseconds are 146 years; 2^60 bytes an exbibyte.
constexpr double kMostSeconds = 4.6e9;
constexpr Bytes kMostBytes = Bytes{1} << 60;

std::vector<Bytes> readBytes(const JsonObject& fields, const char* key) {
  std::vector<Bytes> list = fields.integers(key);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string where = std::string(key) + "[" + std::to_string(i) + "]: ";
    if (list[i] < 0) fields.fail(where + "is negative");
    if (list[i] > kMostBytes) fields.fail(where + "is more than 2^60 bytes");
  }
  return list;
}

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
  chain.activation_bytes = readBytes(fields, "activation_bytes");
  chain.saved_bytes = readBytes(fields, "saved_bytes");
  chain.forward_workspace_bytes = readBytes(fields, "forward_workspace_bytes");
  chain.backward_workspace_bytes = readBytes(fields, "backward_workspace_bytes");
  chain.forward_ns = readSeconds(fields, "forward_seconds");
  chain.backward_ns = readSeconds(fields, "backward_seconds");
  const std::size_t stages = chain.stages();
  if (stages == 0) fields.fail("has no stage");
  const auto expectStages = [&](const char* key, std::size_t size) {
    if (size == stages) return;
    fields.fail(std::string(key) + ": has " + std::to_string(size) +
                " items, forward_seconds has " + std::to_string(stages));
  };
  expectStages("activation_bytes", chain.activation_bytes.size());
  expectStages("saved_bytes", chain.saved_bytes.size());
  expectStages("forward_workspace_bytes", chain.forward_workspace_bytes.size());
  expectStages("backward_workspace_bytes", chain.backward_workspace_bytes.size());
  expectStages("backward_seconds", chain.backward_ns.size());
  return chain;
}

}  // namespace ebbtide::scheduler
