#include "record/message_batch.hpp"

#include <ATen/core/ivalue.h>
#include <torch/custom_class.h>

#include <exception>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace ebbtide::plugin {

bool isUnderWay(const at::RecordFunction& call) try {
  const auto& results = call.outputs();
  return results.size() == 1 && results[0].toCustomClass<c10d::Work>().defined();
} catch (const std::exception&) {  // a result of another kind
  return false;
}

}  // namespace ebbtide::plugin
