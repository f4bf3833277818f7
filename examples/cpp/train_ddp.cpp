// Trains the network of train.cpp data parallel, in plain LibTorch: c10d over Gloo, gradients
// averaged.
//
//   torchrun --no-python --nproc-per-node 2 train_ddp [--steps N] [--layers N] [--width N] [--batch
//   N]
//                                                     [--seed N] [--out FILE, {rank} is replaced]
//
// Any launcher does that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.

#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "striped_images.hpp"

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) throw std::runtime_error(std::string(name) + " is not set");
  return value;
}

struct Ranks {
  int own;
  int count;
};

c10::intrusive_ptr<c10d::ProcessGroupGloo> connect(const Ranks& ranks) {
  // torchrun may keep the store itself; else the first rank does.
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  const bool kept = agent != nullptr && std::string_view(agent) == "True";
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(std::stoi(variable("MASTER_PORT")));
  options.isServer = ranks.own == 0 && !kept;
  options.waitWorkers = false;
  const auto all = c10::make_intrusive<c10d::TCPStore>(variable("MASTER_ADDR"), options);
  const char* life = std::getenv("TORCHELASTIC_RESTART_COUNT");  // the store outlives a restart
  const auto store = c10::make_intrusive<c10d::PrefixStore>(
      std::string("train_ddp/") + (life == nullptr ? "0" : life), all);
  return c10::make_intrusive<c10d::ProcessGroupGloo>(
      store, ranks.own, ranks.count, c10d::ProcessGroupGloo::Options::create_default());
}

void average_gradients(const torch::nn::Module& module, c10d::ProcessGroupGloo& group) {
  std::vector<at::Tensor> gradients;
  std::vector<c10::intrusive_ptr<c10d::Work>> sums;
  for (const auto& parameter : module.parameters()) gradients.push_back(parameter.grad());
  for (const auto& gradient : gradients) {
    std::vector<at::Tensor> one = {gradient};
    sums.push_back(group.allreduce(one));
  }
  for (const auto& sum : sums) sum->wait();
  for (auto& gradient : gradients) gradient.div_(group.getSize());
}

void train(const Options& options) {
  const Ranks ranks{std::stoi(variable("RANK")), std::stoi(variable("WORLD_SIZE"))};
  const auto group = connect(ranks);
  torch::manual_seed(options.seed);  // the same parameters on each rank
  Network network(options);
  torch::optim::AdamW optimizer(network->parameters(), torch::optim::AdamWOptions(2e-3));
  torch::manual_seed(options.seed + 1 + ranks.own);  // but other images and dropout masks
  auto generator = at::make_generator<at::CPUGeneratorImpl>(options.seed + 1 + ranks.own);

  std::string losses;
  std::string seconds;
  for (int step = 1; step <= options.steps; ++step) {
    const auto started = std::chrono::steady_clock::now();
    const auto [images, labels] = draw_batch(options.batch, generator);
    const auto loss = torch::nn::functional::cross_entropy(network->forward(images), labels);
    loss.backward();
    average_gradients(*network, *group);
    optimizer.step();
    optimizer.zero_grad();
    const double value = loss.item<double>();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - started;
    if (ranks.own == 0) {
      std::printf("step %3d  loss %.4f  %.2f s\n", step, value, passed.count());
      std::fflush(stdout);
    }
    const char* separator = step == 1 ? "" : ", ";
    losses += separator + format("\"%a\"", value);
    seconds += separator + format("%.6f", passed.count());
  }
  group->barrier()->wait();  // the first rank may keep the store
  if (options.out.empty()) return;
  const auto hash = format("%016llx", static_cast<unsigned long long>(fingerprint(*network)));
  std::string path = options.out;
  const auto place = path.find("{rank}");
  if (place != std::string::npos) path.replace(place, 6, std::to_string(ranks.own));
  std::ofstream out(path);
  out << "{\"losses\": [" << losses << "], \"parameters_hash\": \"" << hash
      << "\", \"step_seconds\": [" << seconds << "]}\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(parse(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "train_ddp: " << error.what() << '\n';
    return 1;
  }
}
