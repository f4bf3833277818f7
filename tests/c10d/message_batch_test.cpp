#include "record/message_batch.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

namespace ebbtide::plugin {
namespace {

// As NCCL's: while a batch is open there is no work of a single message.
class BatchingBackend final : public c10d::Backend {
 public:
  BatchingBackend() : Backend(0, 2) {}
  const std::string getBackendName() const override { return "batching"; }
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override { open_ = true; }
  c10::intrusive_ptr<c10d::Work> endCoalescing() override {
    open_ = false;
    return c10::make_intrusive<c10d::Work>();
  }
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>&, int, int) override {
    return message();
  }
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>&, int, int) override {
    return message();
  }

 private:
  c10::intrusive_ptr<c10d::Work> message() const {
    return open_ ? c10::intrusive_ptr<c10d::Work>() : c10::make_intrusive<c10d::Work>();
  }
  bool open_ = false;
};

std::vector<bool>& underWay() {  // of each message so far
  static std::vector<bool> messages;
  return messages;
}

TEST(MessageBatch, IsOpenWhereThereIsNothingToWaitForYet) {
  const auto group = c10::make_intrusive<c10d::ProcessGroup>(0, 2);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
                    c10::make_intrusive<BatchingBackend>());
  const auto callback = at::addGlobalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction&) { return std::unique_ptr<at::ObserverContext>(); },
          [](const at::RecordFunction& call, at::ObserverContext*) {
            if (std::strncmp(call.name(), "c10d::", 6) == 0) underWay().push_back(isUnderWay(call));
          })
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION}));
  std::vector<at::Tensor> tensors = {at::ones({4})};
  group->recv(tensors, 1, 0);
  group->startCoalescing(c10::DeviceType::CPU);
  group->send(tensors, 1, 0);
  group->recv(tensors, 1, 0);
  group->endCoalescing(c10::DeviceType::CPU);
  group->send(tensors, 1, 0);
  at::removeCallback(callback);
  EXPECT_EQ(underWay(), (std::vector<bool>{true, false, false, true}));
}

}  // namespace
}  // namespace ebbtide::plugin
