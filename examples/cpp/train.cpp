// Trains a small convolutional network with dropout on striped images, in plain LibTorch.
//
//   train_cpp [--steps N] [--layers N] [--width N] [--batch N] [--seed N] [--out FILE]

#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>

#include "striped_images.hpp"

namespace {

void train(const Options& options) {
  torch::manual_seed(options.seed);
  Network network(options);
  torch::optim::AdamW optimizer(network->parameters(), torch::optim::AdamWOptions(2e-3));
  auto generator = at::make_generator<at::CPUGeneratorImpl>(options.seed);

  std::string losses;
  std::string seconds;
  for (int step = 1; step <= options.steps; ++step) {
    const auto started = std::chrono::steady_clock::now();
    const auto [images, labels] = draw_batch(options.batch, generator);
    const auto loss = torch::nn::functional::cross_entropy(network->forward(images), labels);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    const double value = loss.item<double>();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - started;
    std::printf("step %3d  loss %.4f  %a  %.2f s\n", step, value, value, passed.count());
    std::fflush(stdout);
    const char* separator = step == 1 ? "" : ", ";
    losses += separator + format("\"%a\"", value);
    seconds += separator + format("%.6f", passed.count());
  }
  const auto hash = format("%016llx", static_cast<unsigned long long>(fingerprint(*network)));
  std::printf("parameters %s\n", hash.c_str());
  if (options.out.empty()) return;
  std::ofstream out(options.out);
  out << "{\"losses\": [" << losses << "], \"parameters_hash\": \"" << hash
      << "\", \"step_seconds\": [" << seconds << "]}\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + options.out);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(parse(argc, argv));
  } catch (const std::exception& error) {
    std::cerr << "train_cpp: " << error.what() << '\n';
    return 1;
  }
}
