// MemoryJobStore: one rank's way to a store in memory that all ranks of a test share, with the
// faults that the test asks for.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "job/job_store.hpp"

namespace ebbtide::plugin {

// What is in it. Not for several threads.
using JobStoreContents = std::map<std::string, std::string>;

class MemoryJobStore final : public JobStore {
 public:
  struct Faults {
    bool connects = true;
    bool broken = false;  // every call throws
    bool gone = false;    // JobStoreGone
    // Called with each value before it is set; what it leaves is stored.
    std::function<void(const std::string& key, std::string& value)> damage;
    std::function<void()> on_get, on_remove;  // before each
    // True: this change reaches the others only with a later call, or deliver(). In order.
    std::function<bool()> delays;
    // Each of our calls takes from it; at 0 the store breaks.
    std::int64_t calls_left = -1;
    std::int64_t calls = 0;  // so far
  };

  explicit MemoryJobStore(std::shared_ptr<JobStoreContents> contents)
      : contents_(std::move(contents)), faults_(std::make_shared<Faults>()) {}

  std::shared_ptr<Faults> faults() const { return faults_; }  // outlives the store

  bool connected() override { return faults_->connects; }
  void set(const std::string& key, const std::string& value) override {
    call();
    std::string kept = value;
    if (faults_->damage) faults_->damage(key, kept);
    change([key, kept](JobStoreContents& contents) { contents[key] = kept; });
  }
  std::optional<std::string> get(const std::string& key) override {
    call();
    if (faults_->on_get) faults_->on_get();
    if (!(faults_->delays && faults_->delays())) deliver();
    const auto found = contents_->find(key);
    if (found == contents_->end()) return std::nullopt;
    return found->second;
  }
  void remove(const std::string& key) override {
    call();
    if (faults_->on_remove) faults_->on_remove();
    change([key](JobStoreContents& contents) { contents.erase(key); });
  }

 private:
  using Change = std::function<void(JobStoreContents&)>;

  void call() {
    ++faults_->calls;
    if (faults_->calls_left == 0) faults_->broken = true;
    if (faults_->calls_left > 0) --faults_->calls_left;
    if (faults_->gone) throw JobStoreGone("the group is gone");
    if (faults_->broken) throw std::runtime_error("the connection was closed");
  }
  void change(Change change) {
    late_.push_back(std::move(change));
    if (!(faults_->delays && faults_->delays())) deliver();
  }
  void deliver() {
    for (; !late_.empty(); late_.pop_front()) late_.front()(*contents_);
  }

  std::shared_ptr<JobStoreContents> contents_;
  std::shared_ptr<Faults> faults_;
  std::deque<Change> late_;
};

}  // namespace ebbtide::plugin
